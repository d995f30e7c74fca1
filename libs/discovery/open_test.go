package discovery_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/consul"
	"github.com/roost-cluster/roost/libs/discovery/dns"
	"github.com/roost-cluster/roost/libs/discovery/etcd"
	_ "github.com/roost-cluster/roost/libs/discovery/file"
	"github.com/roost-cluster/roost/libs/discovery/kubernetes"
	_ "github.com/roost-cluster/roost/libs/discovery/static"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	if err := os.WriteFile(path, []byte("a:1\nb:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"static:a:1,b:2", "static://a:1,b:2", "file:" + path, "file://" + path} {
		b, err := discovery.Open(url, "")
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if peers, err := b.Peers(context.Background()); err != nil || len(peers) != 2 || peers[1].Addr != "b:2" {
			t.Errorf("%s: %v, %v", url, peers, err)
		}
	}
	b, err := discovery.Open("static:", "")
	if err != nil {
		t.Fatal(err)
	}
	if peers, err := b.Peers(context.Background()); err != nil || len(peers) != 0 {
		t.Errorf("an empty list gives %v, %v", peers, err)
	}
}

func TestOpenOthers(t *testing.T) {
	for url, wants := range map[string]any{
		"dns:///_roost._tcp.example.net":                    new(dns.Backend),
		"etcd://a:2379,b:2379/roost/prod?ttl=5s":            new(etcd.Backend),
		"consul://127.0.0.1:8500/roost?datacenter=dc1":      new(consul.Backend),
		"kubernetes://prod/coordinator?api=http://a.b:6443": new(kubernetes.Backend),
	} {
		b, err := discovery.Open(url, "prod")
		if err != nil || reflect.TypeOf(b) != reflect.TypeOf(wants) {
			t.Errorf("%s gives %T, %v", url, b, err)
		}
	}
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	for url, words := range map[string][]string{
		"etcd://a:1/x?colour=red&tll=3s": {`"colour", "tll"`, "ca, cert, cluster, key, password_file, tls, ttl, user"},
		"etcd://a:1/x?ttl=soon":          {"ttl", "2s to 1h", "10s"},
		"consul://a:1/x?ttl=":            {"ttl", "empty"},
		"zookeeper://a:1/x":              {"zookeeper", "kubernetes"},
		"dns:///a?port=1#b":              {"fragment"},
		"dns:a?port=1":                   {"://"},
		"etcd://root:hush@a:1/x":         {"password", "etcd://xxxxx@a:1/x"},
	} {
		_, err := discovery.Open(url, "")
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s gives %v, which does not say %q", url, err, w)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "static", "static:a", "static:a:1?ttl=3", "static:a:1?", "file:", "file:/x?poll=1s", "dsn:x", "a:1,b:2"} {
		if b, err := discovery.Open(url, ""); !errors.Is(err, discovery.ErrConfig) || b != nil {
			t.Errorf("%q gives %v, %v", url, b, err)
		}
	}
}
