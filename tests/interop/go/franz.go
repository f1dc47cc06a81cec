package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const perCodec = 500

func franz(bootstrap, topic string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	must(err, "client")
	admin := kadm.NewClient(client)
	created, err := admin.CreateTopics(ctx, 6, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic, topic+"-out")
	must(err, "create")
	must(created.Error(), "create topics")
	checked("create topics")
	_, err = admin.CreateTopic(ctx, 1, 1, nil, topic)
	equal(true, errors.Is(err, kerr.TopicAlreadyExists), "a topic exists once")

	sent := franzProduce(ctx, bootstrap, topic)
	franzGroup(ctx, bootstrap, topic, "franz-"+topic, sent)
	offsets, err := admin.FetchOffsets(ctx, "franz-"+topic)
	must(err, "fetch offsets")
	var committed int64
	offsets.Each(func(o kadm.OffsetResponse) { committed += o.At })
	equal(int64(sent), committed, "committed offsets of all partitions")
	lag, err := admin.Lag(ctx, "franz-"+topic)
	must(err, "lag")
	for _, group := range lag {
		must(group.Error(), "lag of the group")
		equal(int64(0), group.Lag.Total(), "the group has no lag")
	}
	franzTransactions(ctx, bootstrap, topic, sent)
	franzAdmin(ctx, admin, topic)
	client.Close()
}

func franzProduce(ctx context.Context, bootstrap, topic string) int {
	sent := 0
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(codec))
		must(err, "producer")
		var records []*kgo.Record
		for i := 0; i < perCodec; i++ {
			records = append(records, &kgo.Record{
				Topic: topic, Key: []byte(fmt.Sprintf("k%d", i%20)), Value: []byte(fmt.Sprintf("%s-%d", name, i)),
				Headers: []kgo.RecordHeader{{Key: "codec", Value: []byte(name)}},
			})
		}
		must(producer.ProduceSync(ctx, records...).FirstErr(), "produce "+name)
		producer.Close()
		checked("produce " + name + ", idempotent")
		sent += perCodec
	}
	return sent
}

// Two members share the partitions; one leaves, and the other one continues with all of them.
func franzGroup(ctx context.Context, bootstrap, topic, group string, sent int) {
	var mu sync.Mutex
	seen := map[string]int{}
	member := func(stop <-chan struct{}) *kgo.Client {
		client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		must(err, "member")
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				polled, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				fetches := client.PollFetches(polled)
				cancel()
				if fetches.IsClientClosed() {
					return
				}
				fetches.EachRecord(func(r *kgo.Record) {
					mu.Lock()
					seen[string(r.Value)]++
					mu.Unlock()
				})
				must(client.CommitUncommittedOffsets(ctx), "commit")
			}
		}()
		return client
	}
	stop := make(chan struct{})
	first, second := member(stop), member(stop)
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		mu.Lock()
		enough := len(seen) >= sent
		mu.Unlock()
		if enough {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	close(stop)
	time.Sleep(400 * time.Millisecond)
	must(first.CommitUncommittedOffsets(ctx), "commit")
	must(second.CommitUncommittedOffsets(ctx), "commit")
	first.Close()
	second.Close()
	equal(sent, len(seen), "two members of a group read every record")
}

func franzTransactions(ctx context.Context, bootstrap, topic string, sent int) {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("franz-"+topic),
		kgo.ConsumerGroup("franz-tx-"+topic), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets())
	must(err, "session")
	done, round := 0, 0
	for done < sent {
		fetches := session.PollFetches(ctx)
		must(fetches.Err(), "poll")
		must(session.Begin(), "begin")
		moved := 0
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: topic + "-out", Key: r.Key, Value: r.Value}, nil)
			moved++
		})
		round++
		commit := kgo.TransactionEndTry(kgo.TryCommit)
		if round == 1 {
			commit = kgo.TryAbort
		}
		committed, err := session.End(ctx, commit)
		must(err, "end")
		if committed {
			done += moved
		}
	}
	session.Close()
	reader, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic+"-out"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(err, "reader")
	seen := map[string]int{}
	for len(seen) < sent {
		fetches := reader.PollFetches(ctx)
		must(fetches.Err(), "poll committed")
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	reader.Close()
	for value, n := range seen {
		if n != 1 {
			must(fmt.Errorf("%s was read %d times", value, n), "transactions")
		}
	}
	checked("consume-transform-produce in transactions, one of them aborted, is read once")
}

func franzAdmin(ctx context.Context, admin *kadm.Client, topic string) {
	groups, err := admin.DescribeGroups(ctx, "franz-"+topic)
	must(err, "describe groups")
	equal("Empty", groups["franz-"+topic].State, "describe a group")
	must(firstErr(admin.DeleteGroups(ctx, "franz-"+topic)), "delete group")
	checked("delete a group")
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	must(err, "configs")
	one, err := configs.On(topic, nil)
	must(err, "configs of the topic")
	for _, config := range one.Configs {
		if config.Key == "retention.ms" {
			equal("-1", config.MaybeValue(), "describe a topic's options")
		}
	}
	deleted, err := admin.DeleteTopics(ctx, topic, topic+"-out")
	must(err, "delete")
	must(deleted.Error(), "delete topics")
	checked("delete topics")
}

func firstErr(responses kadm.DeleteGroupResponses, err error) error {
	if err != nil {
		return err
	}
	for _, response := range responses {
		if response.Err != nil {
			return response.Err
		}
	}
	return nil
}
