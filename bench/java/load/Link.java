/** A connection to a broker, for one producer, one consumer or one of each; each is used by one thread. */
interface Link extends AutoCloseable {
    /** What to do with a message that has come. */
    interface Taker {
        /**
         * @param labelled starts with the message's label
         * @param bodyBytes the length of its body
         */
        void take(String labelled, int bodyBytes, Settlement settlement) throws Exception;
    }

    /** How a message is settled, where the broker's client does not do so by itself. */
    interface Settlement {
        void acknowledge() throws Exception;

        void commit() throws Exception;
    }

    /** Connect as the broker at the work's address needs it. */
    static Link open(Work work, String name) throws Exception {
        return work.uri.startsWith("amqp:") ? new RabbitLink(work, name) : new JmsLink(work, name);
    }

    void prepareToSend(String destination) throws Exception;

    /** Send a body of the work's size that begins with {@code label}; returns when the broker has it, unless async. */
    void send(String label, int number) throws Exception;

    void commit() throws Exception;

    /** Messages come after {@link #start}; {@code index} is the consumer's. */
    void prepareToReceive(String destination, int index, Taker taker) throws Exception;

    void start() throws Exception;

    /** Ends the connection, when the broker has seen every acknowledgement. */
    @Override
    void close() throws Exception;
}
