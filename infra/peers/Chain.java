// The benchmark's chain on Kafka Streams, exactly once: a count by user, of which rows with a count above 0 go out.
// Arguments: bootstrap servers, input topic, output topic, commit interval in milliseconds. State is kept in the
// working directory. Updates of a key within a commit interval are merged, as ours are within a batch.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

public class Chain {
    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer-" + words[2]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, "state");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, Integer.parseInt(words[3]));
        settings.put("auto.offset.reset", "earliest");

        ObjectMapper mapper = new ObjectMapper();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(words[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .map((key, event) -> new KeyValue<>(user(mapper, event), new byte[0]))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
                .count()
                .toStream()
                .filter((user, n) -> n > 0)
                .mapValues((user, n) -> "{\"user\":\"" + user + "\",\"n\":" + n + "}")
                .to(words[2], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler((Throwable error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    static String user(ObjectMapper mapper, byte[] event) {
        try {
            JsonNode read = mapper.readTree(event);
            return read.get("user").textValue();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
