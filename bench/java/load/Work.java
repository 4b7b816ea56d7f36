import java.util.HashMap;
import java.util.Map;

/** What one round does: {@code sources} producers send {@code messages} messages each, and the consumers take them. */
final class Work {
    final String uri;
    /** The name of the queue or topic. */
    final String destination;
    /** Marks the round's messages, so that others are recognised. */
    final String tag;
    /** False: the messages were sent by an earlier round with the same tag. */
    final boolean send;

    final int sources;
    final int consumers;
    final int messages;
    /** The number of the first message: earlier rounds have sent those before it. */
    final int first;

    final boolean persistent;
    final boolean async;
    /** Messages to a transaction, on both sides; 0: none. */
    final int batch;
    final int bodyBytes;
    /** Leave the messages whose number is a multiple unacknowledged; 0: none. */
    final int keepEvery;
    /** Only numbers that are multiples of it are expected: what an earlier round has kept. */
    final int step;
    /** Whatever comes after the expected messages is left in the queue. */
    final boolean partial;
    /** To a topic: every consumer gets every message. */
    final boolean topic;

    final boolean durable;
    /** Consumer i has a selector for the messages whose number is i, modulo this; 0: no selectors. */
    final int selectors;
    /** More than one: producer i and consumer i use queue i. */
    final int queues;
    /** Producer i and consumer i share a connection. */
    final boolean shared;
    /** Messages per second, of all producers, sent by a schedule; 0: as fast as it goes. */
    final int rate;
    /** Small requests per second, on connections of their own, as long as the round takes. */
    final int pings;

    /** RabbitMQ: a queue that syncs each message, instead of a classic one. */
    final boolean quorum;

    private final Map<String, String> values = new HashMap<>();

    /** From words like {@code sources=16}. */
    Work(String[] words) {
        for (String word : words) {
            String[] pair = word.split("=", 2);
            values.put(pair[0], pair[1]);
        }
        uri = values.get("uri");
        destination = values.get("destination");
        tag = values.get("tag");
        send = flag("send");
        sources = number("sources");
        consumers = number("consumers");
        messages = number("messages");
        first = number("first");
        persistent = flag("persistent");
        async = flag("asynchronous");
        batch = number("batch");
        bodyBytes = number("bodyBytes");
        keepEvery = number("keepEvery");
        step = number("step");
        partial = flag("partial");
        topic = flag("topic");
        durable = flag("durable");
        selectors = number("selectors");
        queues = number("queues");
        shared = flag("shared");
        rate = number("rate");
        pings = number("pings");
        quorum = flag("quorum");
        if (batch > 0 && consumers > 1) {
            throw new IllegalArgumentException("the last transaction of several consumers would stay open");
        }
    }

    private int number(String name) {
        return Integer.parseInt(values.get(name));
    }

    private boolean flag(String name) {
        return Boolean.parseBoolean(values.get(name));
    }

    String destinationOf(int index) {
        return queues > 1 ? destination + "." + index : destination;
    }

    /** How often each message arrives. */
    int copies() {
        return topic ? consumers : Math.min(1, consumers);
    }

    int expected() {
        return copies() * sources * ((messages + step - 1) / step);
    }
}
