/** One consumer; takes messages from {@link #start} on. */
final class Receiver implements Link.Taker {
    private final Work work;
    private final int index;
    private final Tally tally;
    private final Latencies latencies;
    private final Link link;
    private int taken;
    private volatile Exception failure;

    Receiver(Work work, int index, Tally tally, Latencies latencies, Link link) throws Exception {
        this.work = work;
        this.index = index;
        this.tally = tally;
        this.latencies = latencies;
        this.link = link;
        link.prepareToReceive(work.destinationOf(index), index, this);
    }

    void start() throws Exception {
        link.start();
    }

    @Override
    public void take(String labelled, int bodyBytes, Link.Settlement settlement) {
        if (work.partial && tally.isComplete()) {
            return; // its transaction is never committed, so it goes back
        }
        try {
            int position = tally.add(index, labelled, bodyBytes);
            latencies.note(position);
            taken++;
            if (work.keepEvery > 0 && position / work.sources % work.keepEvery != 0) {
                settlement.acknowledge();
            }
            if (work.batch > 0 && (taken % work.batch == 0 || tally.isComplete())) {
                settlement.commit();
            }
            tally.finishIfComplete();
        } catch (Exception error) {
            failure = error;
        }
    }

    Exception failure() {
        return failure;
    }
}
