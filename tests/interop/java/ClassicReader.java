import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.TreeSet;
import kafka.api.FetchRequestBuilder;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

/** Reads a topic to its end with the SimpleConsumer of 0.8.2, and compares the sorted `key=value` of all messages. */
public final class ClassicReader {
    public static void main(String[] args) throws Exception {
        String host = args[0].split(":")[0], topic = args[1];
        int port = Integer.parseInt(args[0].split(":")[1]), partitions = Integer.parseInt(args[2]);
        SimpleConsumer consumer = new SimpleConsumer(host, port, 10000, 64 * 1024, "reader");
        TreeSet<String> found = new TreeSet<>();
        for (int p = 0; p < partitions; p++) {
            long offset = 0;
            while (true) {
                FetchResponse response =
                    consumer.fetch(new FetchRequestBuilder().addFetch(topic, p, offset, 1_000_000).build());
                if (response.hasError()) throw new AssertionError("error " + response.errorCode(topic, p));
                long before = offset;
                for (MessageAndOffset m : response.messageSet(topic, p)) {
                    if (m.offset() < offset) continue;
                    found.add(text(m.message().key()) + "=" + text(m.message().payload()));
                    offset = m.nextOffset();
                }
                if (offset == before) break;
            }
        }
        consumer.close();
        Check.equal(new TreeSet<>(Arrays.asList(args).subList(3, args.length)), found, "messages of the 0.8 producer in Python");
        System.out.println("done");
        System.exit(0);
    }

    static String text(ByteBuffer buffer) throws Exception {
        if (buffer == null) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, "UTF-8");
    }
}
