package cluster_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/roost-cluster/roost/libs/node"
)

// The test binary stands in for the services: under the name of one it behaves
// as a file next to its address file demands.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "coordinator", "region", "gateway":
		fake(os.Args[1:])
	case "launcher":
		launch(os.Args[1])
	default:
		os.Exit(m.Run())
	}
}

// fake does what the launcher can see of a service. It does not watch its
// parent: that must be the launcher's own work.
func fake(args []string) {
	flags := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	name := flags["--node.name"]
	mood, _ := os.ReadFile(filepath.Join(filepath.Dir(flags["--node.address_file"]), name+".mood"))
	fmt.Println("hello from", name)
	if string(mood) == "die" {
		fmt.Println("listen tcp: bad mood")
		os.Exit(3)
	}
	terms := make(chan os.Signal, 2)
	signal.Notify(terms, syscall.SIGTERM, syscall.SIGINT)
	service, err := net.Listen("tcp", flags["--service.listen"])
	if err != nil {
		panic(err)
	}
	management, err := net.Listen("tcp", flags["--management.listen"])
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if string(mood) == "warning" {
			fmt.Fprint(w, "[!] journal: it is damaged: look there\nok\n")
		}
		if string(mood) == "unready" {
			http.Error(w, "[-] journal: disk full", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/args", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(flags) })
	go func() { _ = http.Serve(management, mux) }()
	content, _ := json.Marshal(node.Addresses{
		Name: name, PID: os.Getpid(), Listen: service.Addr().String(), Management: management.Addr().String(),
	})
	file := flags["--node.address_file"]
	if err := os.WriteFile(file+".new", content, 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		panic(err)
	}
	for range terms {
		if string(mood) != "stubborn" {
			os.Exit(0)
		}
	}
}
