package node

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/setting"
)

// memoryShare is the share of its control group's memory that the Go runtime may fill
// before it collects harder, unless GOMEMLIMIT is set; the rest is for what the runtime
// does not count.
const memoryShare = 0.9

// signalled returns the exit code of a process that a signal has ended: 128 and the number of the signal, as in shells.
// So a parent can tell it from a program that has ended itself.
func signalled(signal os.Signal) int {
	number, _ := signal.(syscall.Signal) // all are on the systems on which signals have numbers
	return 128 + int(number)
}

// Main is a complete main function for a service: it loads the configuration from the
// arguments, the environment and the file that they name, runs the service, and returns
// the exit code. SIGTERM and SIGINT stop it gracefully, with code 0 if that succeeds; a
// second signal ends the process at once with code 128 and the number of the signal.
func Main(service string, cfg config.Configured, setup func(*Node) error) int {
	program := "roost-" + service
	settings, err := config.Load(cfg, os.Args[1:], os.Environ())
	if err != nil {
		if settings != nil && settings.Asked == "print_config" { // show where the wrong values come from
			settings.WriteEffective(os.Stdout)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", program, backendurl.RedactText(err.Error()))
		return 2
	}
	switch settings.Asked {
	case "help", "help_expert":
		settings.WriteHelp(os.Stdout, program)
		if t, ok := cfg.(config.Tooled); ok {
			fmt.Printf("\n%s", t.Tools())
		}
		return 0
	case "version":
		fmt.Println(BuildVersion(program))
		return 0
	case "print_config":
		settings.WriteEffective(os.Stdout)
		return 0
	}
	common := cfg.Common()
	if common.ExitWithParent {
		exitWithParent()
	}
	log := telemetry.NewLogger(telemetry.Stderr, common.LogLevel, common.LogFormat)
	defer telemetry.FlushLog()
	// If the reader of the log or of the standard output ends, the process continues: without this, the Go runtime ends
	// it at its next line.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	slog.SetDefault(log)
	if limit, err := memlimit.Set(memlimit.WithRatio(memoryShare)); err != nil {
		log.Debug("no memory limit from the control group", "error", err)
	} else if limit < math.MaxInt64 {
		log.Debug("memory limit", "limit", setting.Bytes(limit))
	}
	defer CollectFrom(common.CollectFrom)()
	otel.SetTextMapPropagator(telemetry.Propagator())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "error", err) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler())) // by default, it writes to the standard error itself

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		log.Info("signal", "signal", <-signals)
		stop()
		second := <-signals
		log.Error("second signal, leaving at once", "signal", second)
		telemetry.FlushLog()
		os.Exit(signalled(second))
	}()
	err = Run(ctx, service, cfg, func(n *Node) error {
		otel.SetTracerProvider(n.TracerProvider())
		otel.SetMeterProvider(n.MeterProvider())
		n.sources = settings
		return setup(n)
	})
	if err != nil {
		return 1
	}
	return 0
}
