import java.io.File;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams counts words through a repartition topic and a store with a changelog; its process is killed twice. */
public final class WordCount {
    static final String[] WORDS = {"log", "segment", "index", "offset", "epoch"};
    static final int LINES = 300;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("count")) {
            count(args[1], args[2], args[3], args[4], args[5], args.length > 6 ? args[6] : "classic");
            return;
        }
        String bootstrap = args[0], input = args[1], output = args[2], guarantee = args[3], state = args[4];
        String[] job = {bootstrap, input, output, guarantee, state};
        Map<String, Long> sent = new TreeMap<>();
        try (Counts counts = new Counts(bootstrap, output)) {
            send(bootstrap, input, sent);
            Process first = start(job);
            counts.readUntil(() -> counts.records > LINES);
            first.destroyForcibly().waitFor();
            send(bootstrap, input, sent);
            Process second = start(job);
            counts.readUntil(() -> counts.reached(sent));
            Check.that(true, "counts go on after a kill");
            second.destroyForcibly().waitFor();
            delete(new File(state));
            send(bootstrap, input, sent);
            Process third = start(job);
            counts.readUntil(() -> counts.reached(sent));
            Check.that(true, "the store comes back from its changelog");
            third.destroy();
            Check.that(third.waitFor() != 137, "it closes in order");
            if (guarantee.equals("exactly_once_v2")) {
                Check.equal(sent, counts.last, "every word is counted once");
                Check.equal(0, counts.repeated, "no count is seen twice");
            }
        }
        System.out.println("done");
        System.exit(0);
    }

    static Process start(String[] job) throws Exception {
        String java = System.getProperty("java.home") + "/bin/java", path = System.getProperty("java.class.path");
        String[] command = {java, "-Xmx192M", "-XX:TieredStopAtLevel=1", "-cp", path, "WordCount", "count"};
        ProcessBuilder child = new ProcessBuilder(command);
        child.command().addAll(Arrays.asList(job));
        return child.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    }

    /** Runs the job until its process is killed or terminated. */
    static void count(
            String bootstrap, String input, String output, String guarantee, String state, String protocol) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("application.id", "count-" + input);
        p.put("processing.guarantee", guarantee);
        p.put("state.dir", state);
        p.put("commit.interval.ms", "100");
        p.put("statestore.cache.max.bytes", "0");
        p.put("default.key.serde", Serdes.String().getClass());
        p.put("default.value.serde", Serdes.String().getClass());
        p.put("consumer.auto.offset.reset", "earliest");
        if (protocol.equals("streams")) p.put("group.protocol", protocol);
        // A static member rejoins without waiting for the session of the killed one.
        else p.put("group.instance.id", "one");
        p.put("producer.transaction.timeout.ms", "3000");
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(input);
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("counts"))
                .toStream()
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), p);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
    }

    static void send(String bootstrap, String topic, Map<String, Long> sent) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < LINES; i++) {
                String one = WORDS[i % WORDS.length], other = WORDS[i * 7 % 3];
                producer.send(new ProducerRecord<>(topic, null, one + " " + other));
                sent.merge(one, 1L, Long::sum);
                sent.merge(other, 1L, Long::sum);
            }
        }
    }

    static void delete(File file) {
        File[] inside = file.listFiles();
        if (inside != null) for (File one : inside) delete(one);
        file.delete();
    }

    /** Returns the counts that a consumer with read_committed reads. */
    static final class Counts implements AutoCloseable {
        final Map<String, Long> last = new TreeMap<>();
        final KafkaConsumer<String, Long> consumer;
        int records, repeated;

        Counts(String bootstrap, String topic) {
            Map<String, Object> p = new HashMap<>();
            p.put("bootstrap.servers", bootstrap);
            p.put("group.id", "reader-" + topic);
            p.put("auto.offset.reset", "earliest");
            p.put("isolation.level", "read_committed");
            consumer = new KafkaConsumer<>(p, new StringDeserializer(), new LongDeserializer());
            consumer.subscribe(Collections.singletonList(topic));
        }

        void readUntil(java.util.function.BooleanSupplier enough) {
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (!enough.getAsBoolean()) {
                if (System.nanoTime() > deadline) throw new AssertionError("only these counts came: " + last);
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                    Long before = last.put(record.key(), record.value());
                    if (record.value() != (before == null ? 1 : before + 1)) repeated++;
                    records++;
                }
            }
        }

        boolean reached(Map<String, Long> sent) {
            return sent.entrySet().stream().allMatch(e -> last.getOrDefault(e.getKey(), 0L) >= e.getValue());
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
