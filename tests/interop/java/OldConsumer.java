import java.util.Collections;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/** A member with the high-level consumer of 0.8.2. Prints a line per message until its input ends. Options: name=value. */
public final class OldConsumer {
    public static void main(String[] args) throws Exception {
        Properties options = new Properties();
        for (int i = 2; i < args.length; i++) options.put(args[i].split("=", 2)[0], args[i].split("=", 2)[1]);
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(options));
        int threads = Integer.parseInt(args[1]);
        for (KafkaStream<byte[], byte[]> stream :
                connector.createMessageStreams(Collections.singletonMap(args[0], threads)).get(args[0])) {
            Thread reader = new Thread(() -> {
                ConsumerIterator<byte[], byte[]> messages = stream.iterator();
                while (messages.hasNext()) {
                    MessageAndMetadata<byte[], byte[]> m = messages.next();
                    System.out.println(m.partition() + " " + m.offset() + " " + new String(m.message()));
                }
            });
            reader.setDaemon(true);
            reader.start();
        }
        System.out.println("ready");
        while (System.in.read() >= 0) connector.commitOffsets();
        connector.shutdown();
        System.exit(0);
    }
}
