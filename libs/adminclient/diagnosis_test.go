package adminclient_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/adminclient"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

// diagnosed answers as one process does.
type diagnosed func(context.Context, *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error)

func (d diagnosed) Explain(ctx context.Context, req *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
	return d(ctx, req)
}

// TestExplainAsksAnybody: the first answer counts, and no caller waits for a silent process. What a process refuses,
// the others would refuse too.
func TestExplainAsksAnybody(t *testing.T) {
	serve := func(d diagnosed) string {
		s := httptest.NewServer(diagnosisv1.NewDiagnosisServer(d))
		t.Cleanup(s.Close)
		return s.URL
	}
	over := make(chan struct{})
	silent := serve(func(ctx context.Context, _ *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
		select {
		case <-ctx.Done():
		case <-over:
		}
		return nil, ctx.Err()
	})
	t.Cleanup(func() { close(over) })
	good := serve(func(_ context.Context, req *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
		return &diagnosisv1.ExplainResponse{Id: req.Id}, nil
	})
	busy := serve(func(context.Context, *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
		return nil, twirp.NewError(twirp.Unavailable, "stopping")
	})
	full := serve(func(context.Context, *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
		return nil, twirp.NewError(twirp.ResourceExhausted, "4 already")
	})
	refuses := serve(func(context.Context, *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
		return nil, twirp.NewError(twirp.InvalidArgument, "no entity")
	})
	stranger := httptest.NewServer(http.NotFoundHandler())
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	gone.Close()
	for _, c := range []struct {
		urls []string
		want error // nil: an answer
		code twirp.ErrorCode
	}{
		{urls: []string{good}},
		{urls: []string{silent, good}},
		{urls: []string{gone.URL, busy, stranger.URL, full, good}},
		{urls: []string{refuses, good}, code: twirp.InvalidArgument},
		{urls: []string{gone.URL, busy}, want: adminclient.ErrUnreachable},
		{urls: []string{stranger.URL}, want: adminclient.ErrWrongAddress},
		{want: adminclient.ErrUnreachable},
	} {
		res, err := adminclient.NewDiagnosis(c.urls...).Explain(t.Context(), &diagnosisv1.ExplainRequest{Type: "Cart", Id: "anna"})
		var e twirp.Error
		switch {
		case c.code != "":
			if !errors.As(err, &e) || e.Code() != c.code {
				t.Errorf("%v: %v", c.urls, err)
			}
		case c.want != nil:
			if !errors.Is(err, c.want) {
				t.Errorf("%v: %v", c.urls, err)
			}
		case err != nil || res.Id != "anna":
			t.Errorf("%v: %v, %v", c.urls, res, err)
		}
	}
}
