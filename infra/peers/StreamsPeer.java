// The benchmark's programs on Kafka Streams, exactly once. State is kept in the working directory.
//
//   running-count SERVERS INPUT OUTPUT            a running count: one row out for each record in
//   chain SERVERS INPUT OUTPUT COMMIT_INTERVAL_MS a count by user, of which rows with a count above 0 go out; updates of
//                                                 a key within a commit interval are merged, as ours are within a batch
//
// Java runs a single source file by itself, so both programs, and what they share, are in this one.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class StreamsPeer {
    static final ObjectMapper MAPPER = new ObjectMapper();

    record Count(String user, long n, long total) {
        Count and(JsonNode event) {
            return new Count(userOf(event), n + 1, total + event.get("amount").longValue());
        }
    }

    public static void main(String[] words) {
        String program = words[0], input = words[2], output = words[3];
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer-" + output);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, "state");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        switch (program) {
            case "running-count" -> {
                settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // else updates of a key are merged
                runningCount(builder, input, output);
            }
            case "chain" -> {
                settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, Integer.parseInt(words[4]));
                chain(builder, input, output);
            }
            default -> throw new IllegalArgumentException("no program " + program);
        }
        run(new KafkaStreams(builder.build(), settings));
    }

    static void runningCount(StreamsBuilder builder, String input, String output) {
        Serde<JsonNode> events = json(JsonNode.class);
        Serde<Count> counts = json(Count.class);
        builder.stream(input, Consumed.with(Serdes.String(), events))
                .groupByKey(Grouped.with(Serdes.String(), events))
                .aggregate(
                        () -> new Count("", 0, 0),
                        (user, event, count) -> count.and(event),
                        Materialized.with(Serdes.String(), counts))
                .toStream()
                .to(output, Produced.with(Serdes.String(), counts));
    }

    static void chain(StreamsBuilder builder, String input, String output) {
        builder.stream(input, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .map((key, event) -> new KeyValue<>(userOf(read(event, JsonNode.class)), new byte[0]))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
                .count()
                .toStream()
                .filter((user, n) -> n > 0)
                .mapValues((user, n) -> "{\"user\":\"" + user + "\",\"n\":" + n + "}")
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
    }

    static void run(KafkaStreams streams) {
        streams.setUncaughtExceptionHandler((Throwable error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    static String userOf(JsonNode event) {
        return event.get("user").textValue();
    }

    static <T> T read(byte[] bytes, Class<T> type) {
        try {
            return MAPPER.readValue(bytes, type);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static <T> Serde<T> json(Class<T> type) {
        Serializer<T> serializer = (topic, value) -> {
            try {
                return value == null ? null : MAPPER.writeValueAsBytes(value);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        };
        Deserializer<T> deserializer = (topic, bytes) -> bytes == null ? null : read(bytes, type);
        return Serdes.serdeFrom(serializer, deserializer);
    }
}
