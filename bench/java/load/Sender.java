import java.util.Arrays;
import java.util.concurrent.Callable;

/** One producer. */
final class Sender implements Callable<Long> {
    private static final int PARTS = 10;

    private final Work work;
    private final int source;
    private final Schedule schedule;
    private final Link link;
    private final long[] partAt = new long[PARTS];
    private int parts;
    private volatile int sent;

    /** @param schedule when to send; null: as fast as it goes */
    Sender(Work work, int source, Schedule schedule, Link link) throws Exception {
        this.work = work;
        this.source = source;
        this.schedule = schedule;
        this.link = link;
        link.prepareToSend(work.destinationOf(source));
    }

    /** Send everything; returns when that was done. */
    @Override
    public Long call() throws Exception {
        for (int n = 0; n < work.messages; n++) {
            int number = work.first + n;
            if (schedule != null) {
                schedule.await(Tally.position(work, source, number));
            }
            link.send(Tally.label(work.tag, source, number), number);
            sent = n + 1;
            if (work.batch > 0 && (sent % work.batch == 0 || sent == work.messages)) {
                link.commit();
            }
            noteParts((int) ((long) sent * PARTS / work.messages));
        }
        return System.nanoTime();
    }

    private void noteParts(int count) {
        if (count > parts) {
            Arrays.fill(partAt, parts, count, System.nanoTime());
            parts = count;
        }
    }

    int sent() {
        return sent;
    }

    /** When each tenth of the messages was sent. */
    long[] partAt() {
        return partAt;
    }
}
