package baseline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
)

// Addresses are the listeners of the servers.
type Addresses struct {
	Mux  string `json:"mux"`
	Tell string `json:"tell"`
	// MuxTell takes messages in one direction, and acknowledges them.
	MuxTell string `json:"mux_tell"`
	HTTP    string `json:"http"`
	// Service answers [DepositPath], if the process was given a database.
	Service string `json:"service"`
}

// DatabaseVariable is the environment variable with the database for [DepositPath]: "postgres://…" or "sqlite:FILE".
const DatabaseVariable = "ROOST_BENCH_DATABASE"

// Serve runs the servers on loopback. It writes their addresses to out, and returns when in
// ends, because the process that started this one is gone.
func Serve(in io.Reader, out io.Writer) error {
	all := newEntities()
	var at Addresses
	var closers []io.Closer
	listen := func(to *string) net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil
		}
		*to = ln.Addr().String()
		closers = append(closers, ln)
		return ln
	}
	mux, tell, muxTell, web := listen(&at.Mux), listen(&at.Tell), listen(&at.MuxTell), listen(&at.HTTP)
	if mux == nil || tell == nil || muxTell == nil || web == nil {
		return errors.New("no free port on loopback")
	}
	go accept(mux, func(nc net.Conn) { serveMux(nc, all) })
	go accept(tell, func(nc net.Conn) { serveTell(nc, all) })
	go accept(muxTell, func(nc net.Conn) { serveMuxTell(nc, all) })
	go func() { _ = http.Serve(web, handler()) }()
	if database := os.Getenv(DatabaseVariable); database != "" {
		s, err := newService(context.Background(), database)
		if err != nil {
			return err
		}
		ln := listen(&at.Service)
		if ln == nil {
			return errors.New("no free port on loopback")
		}
		go func() { _ = http.Serve(ln, serveDeposits(s)) }()
	}
	if err := json.NewEncoder(out).Encode(at); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	for _, c := range closers {
		_ = c.Close()
	}
	return err
}

func accept(ln net.Listener, serve func(net.Conn)) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go serve(nc)
	}
}

// Process is a process that serves the baselines.
type Process struct {
	Addresses
	PID   int
	cmd   *exec.Cmd
	stdin io.Closer
}

// Start starts a command that calls [Serve] with its standard input and output.
func Start(cmd *exec.Cmd) (*Process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{PID: cmd.Process.Pid, cmd: cmd, stdin: stdin}
	if err := json.NewDecoder(stdout).Decode(&p.Addresses); err != nil {
		return nil, errors.Join(fmt.Errorf("the process of the baselines did not say where it listens: %w", err), p.Close())
	}
	return p, nil
}

// Close ends the process.
func (p *Process) Close() error {
	_ = p.stdin.Close()
	return p.cmd.Wait()
}
