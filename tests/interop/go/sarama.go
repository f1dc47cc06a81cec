package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

func saramaConfig(version sarama.KafkaVersion) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func saramaAll(bootstrap, base string) {
	// the version of the requests that it sends: it does not negotiate with the broker
	for _, version := range []sarama.KafkaVersion{sarama.V0_10_2_0, sarama.V1_1_0_0, sarama.V2_8_0_0, sarama.MaxVersion} {
		saramaVersion(bootstrap, fmt.Sprintf("%s-%s", base, version), version)
	}
	saramaTransactions(bootstrap, base)
}

func saramaVersion(bootstrap, topic string, version sarama.KafkaVersion) {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, saramaConfig(version))
	must(err, "admin")
	must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 4, ReplicationFactor: 1}, false), "create topic")
	sent := 0
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}
	if version.IsAtLeast(sarama.V2_1_0_0) {
		codecs = append(codecs, sarama.CompressionZSTD)
	}
	for _, codec := range codecs {
		config := saramaConfig(version)
		config.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
		must(err, "producer")
		var messages []*sarama.ProducerMessage
		for i := 0; i < 200; i++ {
			messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(fmt.Sprint(i % 17)),
				Value: sarama.StringEncoder(fmt.Sprintf("%s-%d", codec, i))})
		}
		must(producer.SendMessages(messages), "send "+codec.String())
		must(producer.Close(), "close producer")
		sent += len(messages)
	}
	checked(fmt.Sprintf("produce with %d codecs in the protocol of %s", len(codecs), version))
	saramaGroup(bootstrap, topic, version, sent)
	must(admin.DeleteTopic(topic), "delete topic")
	must(admin.Close(), "close admin")
}

type collector struct {
	mu    sync.Mutex
	seen  map[string]int
	total int
	want  int
	done  context.CancelFunc
}

func (c *collector) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *collector) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (c *collector) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		c.mu.Lock()
		c.seen[string(message.Value)]++
		c.total++
		session.MarkMessage(message, "")
		if len(c.seen) == c.want {
			c.done()
		}
		c.mu.Unlock()
	}
	return nil
}

func saramaGroup(bootstrap, topic string, version sarama.KafkaVersion, sent int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, "sarama-"+topic, saramaConfig(version))
	must(err, "group")
	found := &collector{seen: map[string]int{}, want: sent, done: cancel}
	for ctx.Err() == nil {
		must(group.Consume(ctx, []string{topic}, found), "consume")
	}
	must(group.Close(), "close group")
	equal(sent, found.total, fmt.Sprintf("a group reads every record once in the protocol of %s", version))
	client, err := sarama.NewClient([]string{bootstrap}, saramaConfig(version))
	must(err, "client")
	manager, err := sarama.NewOffsetManagerFromClient("sarama-"+topic, client)
	must(err, "offset manager")
	var committed int64
	for p := int32(0); p < 4; p++ {
		partition, err := manager.ManagePartition(topic, p)
		must(err, "manage partition")
		next, _ := partition.NextOffset()
		if next > 0 {
			committed += next
		}
		must(partition.Close(), "close partition")
	}
	must(manager.Close(), "close manager")
	must(client.Close(), "close client")
	equal(int64(sent), committed, fmt.Sprintf("committed offsets in the protocol of %s", version))
}

func saramaTransactions(bootstrap, topic string) {
	config := saramaConfig(sarama.MaxVersion)
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = "sarama-" + topic
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	must(err, "transactional producer")
	for round := 0; round < 4; round++ {
		must(producer.BeginTxn(), "begin")
		for i := 0; i < 50; i++ {
			_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: 0,
				Value: sarama.StringEncoder(fmt.Sprintf("%d-%d", round, i))})
			must(err, "send")
		}
		if round%2 == 0 {
			must(producer.CommitTxn(), "commit")
		} else {
			must(producer.AbortTxn(), "abort")
		}
	}
	must(producer.Close(), "close")
	read := saramaConfig(sarama.MaxVersion)
	read.Consumer.IsolationLevel = sarama.ReadCommitted
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, "sarama-tx-"+topic, read)
	must(err, "group")
	found := &collector{seen: map[string]int{}, want: 100, done: cancel}
	for ctx.Err() == nil {
		must(group.Consume(ctx, []string{topic}, found), "consume")
	}
	must(group.Close(), "close group")
	for value := range found.seen {
		if value[0] != '0' && value[0] != '2' {
			must(fmt.Errorf("%s was aborted", value), "read committed")
		}
	}
	equal(100, found.total, "transactions, committed and aborted")
}
