// River: of_river open DSN | work DSN SHEET
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const every = 50 * time.Millisecond

// A sheet records the due date and the firing of each timer: two doubles, seconds since 1970, appended to a file.
type sheet struct {
	file   *os.File
	lock   sync.Mutex
	values []byte
}

func (s *sheet) note(due float64) {
	now := float64(time.Now().UnixMicro()) / 1e6
	s.lock.Lock()
	defer s.lock.Unlock()
	s.values = binary.NativeEndian.AppendUint64(s.values, math.Float64bits(due))
	s.values = binary.NativeEndian.AppendUint64(s.values, math.Float64bits(now))
}

func (s *sheet) flush() {
	s.lock.Lock()
	values := s.values
	s.values = nil
	s.lock.Unlock()
	if _, err := s.file.Write(values); err != nil {
		log.Fatal(err)
	}
}

type fireArgs struct {
	Due float64 `json:"due"`
}

func (fireArgs) Kind() string { return "fire" }

type fireWorker struct {
	river.WorkerDefaults[fireArgs]
	sheet *sheet
}

func (w *fireWorker) Work(_ context.Context, job *river.Job[fireArgs]) error {
	w.sheet.note(job.Args.Due)
	return nil
}

func open(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func work(ctx context.Context, pool *pgxpool.Pool, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	noted := &sheet{file: file}
	workers := river.NewWorkers()
	river.AddWorker(workers, &fireWorker{sheet: noted})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		// As in River's own benchmark, whose 2,000 workers are two processes here.
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1_000}},
		Logger:            slog.New(slog.NewTextHandler(io.Discard, nil)),
		Workers:           workers,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	go func() {
		for range time.Tick(every) {
			noted.flush()
		}
	}()
	fmt.Println("ready")
	// The benchmark closes our standard input when we are to stop.
	_, _ = io.Copy(io.Discard, os.Stdin)
	ending, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = client.Stop(ending)
	noted.flush()
	return err
}

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	switch os.Args[1] {
	case "open":
		err = open(ctx, pool)
	case "work":
		err = work(ctx, pool, os.Args[3])
	}
	if err != nil {
		log.Fatal(err)
	}
}
