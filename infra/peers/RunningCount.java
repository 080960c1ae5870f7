// The benchmark's running count on Kafka Streams, exactly once: one row out for each record in.
// Arguments: bootstrap servers, input topic, output topic. State is kept in the working directory.

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
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class RunningCount {
    record Count(String user, long n, long total) {
        Count and(JsonNode event) {
            return new Count(event.get("user").textValue(), n + 1, total + event.get("amount").longValue());
        }
    }

    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer-" + words[2]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, "state");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // else updates of a key are merged
        settings.put("auto.offset.reset", "earliest");

        Serde<JsonNode> events = json(JsonNode.class);
        Serde<Count> counts = json(Count.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(words[1], Consumed.with(Serdes.String(), events))
                .groupByKey(Grouped.with(Serdes.String(), events))
                .aggregate(
                        () -> new Count("", 0, 0),
                        (user, event, count) -> count.and(event),
                        Materialized.with(Serdes.String(), counts))
                .toStream()
                .to(words[2], Produced.with(Serdes.String(), counts));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler((Throwable error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    static <T> Serde<T> json(Class<T> type) {
        ObjectMapper mapper = new ObjectMapper();
        Serializer<T> serializer = (topic, value) -> {
            try {
                return value == null ? null : mapper.writeValueAsBytes(value);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        };
        Deserializer<T> deserializer = (topic, bytes) -> {
            try {
                return bytes == null ? null : mapper.readValue(bytes, type);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        };
        return Serdes.serdeFrom(serializer, deserializer);
    }
}
