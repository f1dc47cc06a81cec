import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Reads one Avro schema per line. Prints each schema, and then the incompatibilities of each reader and writer. */
public class AvroCompatibility {
    public static void main(String[] args) throws Exception {
        List<Schema> schemas = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            schemas.add(new Schema.Parser().parse(line));
        }
        for (Schema schema : schemas) {
            System.out.println(schema);
        }
        for (Schema reader : schemas) {
            for (Schema writer : schemas) {
                TreeSet<String> types = new TreeSet<>();
                SchemaCompatibility.checkReaderWriterCompatibility(reader, writer)
                    .getResult()
                    .getIncompatibilities()
                    .forEach(i -> types.add(i.getType().name()));
                System.out.println(String.join(" ", types));
            }
        }
    }
}
