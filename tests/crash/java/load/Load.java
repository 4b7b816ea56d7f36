/** What all workers share. */
record Load(int port, Journal journal, Gate gate, Backlog backlog) {
    /** No client-side filter for repetitions, no limit of redeliveries: what the broker does wrong must be seen. */
    private static final String OPTIONS = String.join("&",
        "jms.checkForDuplicates=false",
        "jms.watchTopicAdvisories=false",
        "jms.closeTimeout=2000",
        "jms.prefetchPolicy.queuePrefetch=100",
        "jms.prefetchPolicy.durableTopicPrefetch=1000",
        "jms.redeliveryPolicy.maximumRedeliveries=-1",
        "jms.redeliveryPolicy.initialRedeliveryDelay=0",
        "jms.redeliveryPolicy.redeliveryDelay=0");

    String url() {
        return "tcp://127.0.0.1:" + port + "?" + OPTIONS;
    }

    /** With acknowledgements that wait for the broker's answer. */
    String answeringUrl() {
        return url() + "&jms.sendAcksAsync=false";
    }

    String failoverUrl() {
        return "failover:(tcp://127.0.0.1:" + port + ")?initialReconnectDelay=20&maxReconnectDelay=40"
            + "&warnAfterReconnectAttempts=-1&" + OPTIONS;
    }
}
