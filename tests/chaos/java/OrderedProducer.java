import java.io.PrintStream;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * An idempotent producer: it sends a numbered record to each partition in each interval, until standard input is closed.
 * Prints a line per response: "ack PARTITION SEQUENCE OFFSET" or "fail PARTITION SEQUENCE ERROR", and "left N" at the end.
 * Arguments: bootstrap servers, topic, name, partitions, interval in milliseconds, maximum number of buffered records.
 */
public final class OrderedProducer {
    private static volatile boolean ended;

    /** Wait for the end of standard input, also that by the death of the process that started this one. */
    private static void awaitEnd() {
        try {
            System.in.read();
        } catch (java.io.IOException e) {
            // closed
        }
        ended = true;
    }

    public static void main(String[] args) throws Exception {
        Thread end = new Thread(OrderedProducer::awaitEnd);
        end.setDaemon(true);
        end.start();
        String topic = args[1], name = args[2];
        int partitions = Integer.parseInt(args[3]), beat = Integer.parseInt(args[4]), limit = Integer.parseInt(args[5]);
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("client.id", name);
        p.put("enable.idempotence", "true");
        p.put("acks", "all");
        p.put("linger.ms", "2");
        p.put("request.timeout.ms", "4000");
        p.put("delivery.timeout.ms", "120000");
        p.put("metadata.max.age.ms", "1000");
        p.put("reconnect.backoff.max.ms", "500");
        p.put("retry.backoff.ms", "50");
        p.put("retry.backoff.max.ms", "200");
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        PrintStream out = new PrintStream(System.out, false);
        AtomicLong waiting = new AtomicLong();
        KafkaProducer<String, String> producer = new KafkaProducer<>(p);
        for (long sequence = 0; !ended; ) {
            if (waiting.get() < limit) {
                for (int partition = 0; partition < partitions; partition++) {
                    String place = partition + " " + sequence;
                    waiting.incrementAndGet();
                    producer.send(new ProducerRecord<>(topic, partition, null, name + " " + place), (metadata, error) -> {
                        waiting.decrementAndGet();
                        synchronized (out) {
                            out.println(error == null ? "ack " + place + " " + metadata.offset() : "fail " + place + " " + error);
                        }
                    });
                }
                sequence++;
            }
            synchronized (out) {
                out.flush();
            }
            Thread.sleep(beat);
        }
        producer.flush();
        producer.close();
        out.println("left " + waiting.get());
        out.flush();
        System.exit(0);
    }
}
