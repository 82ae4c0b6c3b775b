import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Apache Kafka's own classes (kafka-clients 3.9) as the judge of records.
 *
 * <p>{@code encode} prints record batches and message sets, one a line: name, tab, hex. {@code decode} reads
 * hex lines and prints what is in them, one record a line, and an empty line after each.
 */
public final class RecordsJudge {
    private static final byte[] LONG = "größe ".repeat(30).getBytes(StandardCharsets.UTF_8);
    private static final byte[] LARGE = "größe ".repeat(20_000).getBytes(StandardCharsets.UTF_8);
    private static final long LOG_APPEND_TIME_MS = 1_700_000_009_999L;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("encode")) {
            encode();
        } else {
            decode();
        }
    }

    private static void encode() {
        for (byte magic = 0; magic <= 2; magic++) {
            for (CompressionType type : CompressionType.values()) {
                if (type == CompressionType.ZSTD && magic < 2) {
                    continue;
                }
                print("magic-" + magic + "-" + type.name, records(magic, type, TimestampType.CREATE_TIME));
                if (magic > 0) {
                    print("magic-" + magic + "-" + type.name + "-append-time",
                            records(magic, type, TimestampType.LOG_APPEND_TIME));
                }
                print("magic-" + magic + "-" + type.name + "-compacted",
                        compacted(records(magic, type, TimestampType.CREATE_TIME)));
                if (type != CompressionType.NONE) {
                    print("magic-" + magic + "-" + type.name + "-large", large(magic, type));
                }
            }
        }
        print("emptied", emptied(records((byte) 2, CompressionType.GZIP, TimestampType.CREATE_TIME)));
        print("commit", MemoryRecords.withEndTransactionMarker(
                7, 1_700_000_000_000L, 3, 21, (short) 2, new EndTransactionMarker(ControlRecordType.COMMIT, 1)));
        print("abort", MemoryRecords.withEndTransactionMarker(
                7, 1_700_000_000_000L, 3, 21, (short) 2, new EndTransactionMarker(ControlRecordType.ABORT, 1)));
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), (byte) 2,
                Compression.NONE, TimestampType.CREATE_TIME, 5, RecordBatch.NO_TIMESTAMP, 21, (short) 2, 40, true, 3);
        builder.append(1_700_000_000_000L, null, "in a transaction".getBytes(StandardCharsets.UTF_8));
        print("transactional", builder.build());
    }

    private static MemoryRecords records(byte magic, CompressionType type, TimestampType timestampType) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic,
                Compression.of(type).build(), timestampType, 100, LOG_APPEND_TIME_MS, 3);
        Header[] headers = magic < 2 ? Record.EMPTY_HEADERS : new Header[] {
            new RecordHeader("h", (byte[]) null), new RecordHeader("h", new byte[] {1}),
            new RecordHeader("größe", new byte[0])};
        long now = magic == 0 ? RecordBatch.NO_TIMESTAMP : 1_700_000_000_000L;
        builder.append(now, "k".getBytes(StandardCharsets.UTF_8), "v".getBytes(StandardCharsets.UTF_8));
        builder.append(now, null, LONG, headers);
        builder.append(magic == 0 ? now : now - 5000, new byte[0], null);
        builder.append(magic == 0 ? now : now + 86_400_000L, "last".getBytes(StandardCharsets.UTF_8), new byte[0]);
        return builder.build();
    }

    /** A record of more than one block of lz4, snappy and zstd. */
    private static MemoryRecords large(byte magic, CompressionType type) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic,
                Compression.of(type).build(), TimestampType.CREATE_TIME, 100);
        builder.append(magic == 0 ? RecordBatch.NO_TIMESTAMP : 1_700_000_000_000L, null, LARGE);
        return builder.build();
    }

    /** What compaction leaves: every second record. */
    private static MemoryRecords compacted(MemoryRecords records) {
        return filtered(records, 2);
    }

    /** A batch of which nothing but the header is left. */
    private static MemoryRecords emptied(MemoryRecords records) {
        return filtered(records, 1000);
    }

    private static MemoryRecords filtered(MemoryRecords records, long step) {
        ByteBuffer kept = ByteBuffer.allocate(1 << 20);
        records.filterTo(new TopicPartition("t", 0), new MemoryRecords.RecordFilter(1_700_000_500_000L, 1000) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                boolean canBeEmpty = batch.magic() >= 2;
                return new BatchRetentionResult(
                        canBeEmpty ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return record.offset() % step == 0;
            }
        }, kept, Integer.MAX_VALUE, BufferSupplier.NO_CACHING);
        kept.flip();
        return MemoryRecords.readableRecords(kept);
    }

    private static void print(String name, MemoryRecords records) {
        System.out.println(name + "\t" + HexFormat.of().formatHex(bytes(records.buffer().duplicate())));
    }

    private static void decode() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = lines.readLine()) != null; ) {
            ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(line));
            for (RecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
                batch.ensureValid();
                for (Record record : batch) {
                    record.ensureValid();
                    System.out.println(text(batch, record));
                }
            }
            System.out.println();
        }
    }

    private static String text(RecordBatch batch, Record record) {
        StringBuilder text = new StringBuilder();
        text.append(record.offset()).append('\t').append(record.timestamp()).append('\t')
                .append(batch.timestampType().id).append('\t').append(hex(record.key())).append('\t')
                .append(hex(record.value()));
        for (Header header : record.headers()) {
            text.append('\t').append(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))));
            text.append('=').append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
        }
        return text.toString();
    }

    private static String hex(ByteBuffer data) {
        return data == null ? "null" : HexFormat.of().formatHex(bytes(data));
    }

    private static byte[] bytes(ByteBuffer data) {
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return bytes;
    }
}
