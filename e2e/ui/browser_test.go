package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// waitLimit bounds waiting for what must happen. It does not judge speed.
const waitLimit = 90 * time.Second

// browser is a page in Chromium.
type browser struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // of the page: exceptions, what the policy has blocked, dialogs
}

// open starts Chromium, or skips the test.
func open(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "chromium-headless-shell", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no chromium here (Debian: apt-get install chromium), so the dashboard is not tested; CHROMIUM= names another one")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1360, 850),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(waitLimit))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	all, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewContext(all)
	t.Cleanup(end)
	b := &browser{T: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	b.run(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		return err
	})
	return b
}

// listen notes what goes wrong in the page.
func (b *browser) listen(event any) {
	note := func(text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors = append(b.errors, text)
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		note(fmt.Sprintf("exception: %+v", *e.ExceptionDetails))
	case *page.EventJavascriptDialogOpening:
		note("a dialog: " + e.Message)
	case *log.EventEntryAdded:
		// A coordinator that is gone, and an answer that refuses, are no errors of the page.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			note(fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// clean fails if something went wrong in the page.
func (b *browser) clean() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		b.Errorf("the browser reports:\n%s", strings.Join(b.errors, "\n"))
	}
	b.errors = nil
}

func (b *browser) run(f func(context.Context, *chromedp.Target) error) {
	b.Helper()
	b.do(chromedp.Func(f))
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// visit opens a page of the dashboard.
func (b *browser) visit(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url))
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true.
func (b *browser) await(what, expression string) {
	b.Helper()
	until := time.Now().Add(waitLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !eval[bool](b, "!!("+expression+")") {
		if time.Now().After(until) {
			b.picture("failed")
			b.Fatalf("%s did not happen within %s; the page says:\n%s", what, waitLimit, eval[string](b, "document.body.innerText"))
		}
		<-tick.C
	}
}

// says waits until the page says something.
func (b *browser) says(text string) {
	b.Helper()
	quoted, _ := json.Marshal(text)
	b.await("that the page says "+text, "document.body.innerText.includes("+string(quoted)+")")
}

// dark chooses the colours.
func (b *browser) dark(on bool) {
	scheme := "light"
	if on {
		scheme = "dark"
	}
	b.run(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
}

// keys presses keys.
func (b *browser) keys(keys ...string) {
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

const enter, right = kb.Enter, kb.ArrowRight

// picture writes the screen for the docs, if UI_PICTURES names a directory.
func (b *browser) picture(name string) {
	b.Helper()
	dir := os.Getenv("UI_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}
