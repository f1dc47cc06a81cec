// Prints golden/records.json: batches as Apache Kafka 4.3.1's own classes write them.
//   java -cp "<directory with the jars of kafka-clients>/*" RecordsGolden.java
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

public class RecordsGolden {
  static byte[] b(String s) { return s == null ? null : s.getBytes(StandardCharsets.UTF_8); }
  static void fill(MemoryRecordsBuilder r) {
    r.append(1700000000000L, b("key-0"), b("value-0"));
    r.append(1700000000005L, (byte[]) null, b("no key"));
    r.append(1699999999990L, b("tombstone"), (byte[]) null);
    r.append(1700000000010L, b(""), b(""), new Header[] {new RecordHeader("h1", b("one")), new RecordHeader("h\u00e9", (byte[]) null), new RecordHeader("h1", b(""))});
    StringBuilder s = new StringBuilder();
    for (int i = 0; i < 40; i++) s.append("line ").append(i % 7).append(' ');
    r.append(1700000001000L, b("long"), b(s.toString()));
  }
  static void out(String name, ByteBuffer buf) {
    byte[] a = new byte[buf.remaining()]; buf.duplicate().get(a);
    System.out.println("  \"" + name + "\": \"" + Base64.getEncoder().encodeToString(a) + "\",");
  }
  public static void main(String[] args) {
    Object[][] codecs = {{"none", Compression.NONE}, {"gzip", Compression.gzip().build()}, {"snappy", Compression.snappy().build()}, {"lz4", Compression.lz4().build()}, {"zstd", Compression.zstd().build()}};
    for (Object[] c : codecs) {
      MemoryRecordsBuilder r = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, (Compression) c[1], TimestampType.CREATE_TIME, 42L, -1L, -1L, (short) -1, -1, false, 7);
      fill(r); out("plain_" + c[0], r.build().buffer());
    }
    MemoryRecordsBuilder r = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, Compression.NONE, TimestampType.LOG_APPEND_TIME, 0L, 1700000009999L, -1L, (short) -1, -1, false, 0);
    fill(r); out("log_append_time", r.build().buffer());
    r = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, Compression.NONE, TimestampType.CREATE_TIME, 100L, -1L, 4711L, (short) 3, 2147483645, true, 5);
    fill(r); out("transactional", r.build().buffer());
    out("commit_marker", MemoryRecords.withEndTransactionMarker(50L, 1700000000000L, 9, 4711L, (short) 3, new EndTransactionMarker(ControlRecordType.COMMIT, 12)).buffer());
    out("abort_marker", MemoryRecords.withEndTransactionMarker(51L, 1700000000000L, 9, 4711L, (short) 3, new EndTransactionMarker(ControlRecordType.ABORT, 12)).buffer());
    for (byte magic = 0; magic < 2; magic++) for (Object[] c : codecs) {
      if (c[0].equals("zstd")) continue;
      r = MemoryRecords.builder(ByteBuffer.allocate(4096), magic, (Compression) c[1], TimestampType.CREATE_TIME, 42L);
      r.append(1700000000000L, b("key-0"), b("value-0"));
      r.append(1700000000005L, (byte[]) null, b("no key"));
      r.append(1699999999990L, b("tombstone"), (byte[]) null);
      out("v" + magic + "_" + c[0], r.build().buffer());
    }
  }
}
