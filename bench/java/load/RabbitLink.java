import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.MessageProperties;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A connection of RabbitMQ's client, used as JMS is elsewhere, as far as AMQP 0-9-1 has it.
 *
 * <p>A producer that waits asks for a confirm of each message. Persistent messages are acknowledged one by one, with a
 * window of a thousand; others are settled when the broker has sent them. A topic is a fanout exchange with a queue for
 * each consumer. In place of transactions there are batches: a producer waits for the confirms of all, and a consumer
 * acknowledges all with one ack; they are no unit. There are no selectors.
 */
final class RabbitLink implements Link {
    private static final int PREFETCH = 1000;
    private static final long CONFIRM_TIMEOUT_MS = 60_000;

    private final Work work;
    private final Connection connection;
    private final String padding;
    private final AMQP.BasicProperties properties;
    private Channel sending;
    private String exchange;
    private String routingKey;
    private Channel receiving;
    private String queue;
    private DefaultConsumer consumer;

    RabbitLink(Work work, String name) throws Exception {
        this.work = work;
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(work.uri);
        connection = factory.newConnection(name);
        padding = "x".repeat(work.bodyBytes);
        properties = work.persistent ? MessageProperties.MINIMAL_PERSISTENT_BASIC : MessageProperties.MINIMAL_BASIC;
    }

    @Override
    public void prepareToSend(String destination) throws IOException {
        sending = connection.createChannel();
        exchange = work.topic ? destination : "";
        routingKey = work.topic ? "" : destination;
        declare(sending, destination);
        if (!work.async || work.batch > 0) {
            sending.confirmSelect();
        }
    }

    @Override
    public void send(String label, int number) throws Exception {
        String body = label + padding.substring(label.length());
        sending.basicPublish(exchange, routingKey, properties, body.getBytes(StandardCharsets.UTF_8));
        if (!work.async && work.batch == 0) {
            sending.waitForConfirmsOrDie(CONFIRM_TIMEOUT_MS);
        }
    }

    @Override
    public void commit() throws Exception {
        sending.waitForConfirmsOrDie(CONFIRM_TIMEOUT_MS);
    }

    @Override
    public void prepareToReceive(String destination, int index, Taker taker) throws IOException {
        receiving = connection.createChannel();
        receiving.basicQos(PREFETCH);
        declare(receiving, destination);
        queue = destination;
        if (work.topic) {
            queue = receiving.queueDeclare().getQueue();
            receiving.queueBind(queue, destination, "");
        }
        consumer = new Passing(receiving, taker);
    }

    private void declare(Channel channel, String destination) throws IOException {
        if (work.topic) {
            channel.exchangeDeclare(destination, "fanout", false, true, null);
        } else {
            Map<String, Object> quorum = Map.of("x-queue-type", "quorum");
            channel.queueDeclare(destination, work.persistent, false, false, work.quorum ? quorum : null);
        }
    }

    @Override
    public void start() throws IOException {
        receiving.basicConsume(queue, !work.persistent, consumer);
    }

    /** The next round may want another kind of queue, so ours goes; its channel has seen every acknowledgement then. */
    @Override
    public void close() throws IOException {
        if (receiving != null) {
            long left = receiving.messageCount(queue);
            if (left > 0) {
                throw new IllegalStateException(left + " messages are left, though all were acknowledged");
            }
            receiving.queueDelete(queue);
        }
        connection.close((int) TimeUnit.SECONDS.toMillis(10));
    }

    /** Gives each message to a taker, and acknowledges it then. */
    private final class Passing extends DefaultConsumer {
        private final Taker taker;

        Passing(Channel channel, Taker taker) {
            super(channel);
            this.taker = taker;
        }

        @Override
        public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties headers, byte[] body)
                throws IOException {
            try {
                taker.take(new String(body, StandardCharsets.UTF_8), body.length, new Batch(envelope));
            } catch (Exception error) {
                throw new IOException(error);
            }
            if (work.persistent && work.batch == 0) {
                getChannel().basicAck(envelope.getDeliveryTag(), false);
            }
        }

        /** All messages up to one, acknowledged together. */
        private final class Batch implements Link.Settlement {
            private final Envelope last;

            Batch(Envelope last) {
                this.last = last;
            }

            @Override
            public void acknowledge() {
                throw new UnsupportedOperationException("a batch is acknowledged as a whole");
            }

            @Override
            public void commit() throws IOException {
                getChannel().basicAck(last.getDeliveryTag(), true);
            }
        }
    }
}
