import java.util.HashMap;
import java.util.Map;

/**
 * What one round does: {@code sources} producers send {@code messages} messages each, and the consumers take them.
 *
 * @param tag marks the round's messages, so that others are recognised
 * @param send false: the messages were sent by an earlier round with the same tag
 * @param batch messages to a transaction, on both sides; 0: none
 * @param keepEvery leave the messages whose number is a multiple unacknowledged; 0: none
 * @param step only numbers that are multiples of it are expected: what an earlier round has kept
 */
record Work(
        String uri,
        String queue,
        String tag,
        boolean send,
        int sources,
        int consumers,
        int messages,
        boolean persistent,
        boolean async,
        int batch,
        int bodyBytes,
        int keepEvery,
        int step) {
    Work {
        if (batch > 0 && consumers > 1) {
            throw new IllegalArgumentException("the last transaction of several consumers would stay open");
        }
    }

    /** From words like {@code sources=16}. */
    static Work from(String[] words) {
        Map<String, String> values = new HashMap<>();
        for (String word : words) {
            String[] pair = word.split("=", 2);
            values.put(pair[0], pair[1]);
        }
        return new Work(
                values.get("uri"),
                values.get("queue"),
                values.get("tag"),
                Boolean.parseBoolean(values.get("send")),
                Integer.parseInt(values.get("sources")),
                Integer.parseInt(values.get("consumers")),
                Integer.parseInt(values.get("messages")),
                Boolean.parseBoolean(values.get("persistent")),
                Boolean.parseBoolean(values.get("async")),
                Integer.parseInt(values.get("batch")),
                Integer.parseInt(values.get("bodyBytes")),
                Integer.parseInt(values.get("keepEvery")),
                Integer.parseInt(values.get("step")));
    }

    int expected() {
        return consumers == 0 ? 0 : sources * ((messages + step - 1) / step);
    }
}
