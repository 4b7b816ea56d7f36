import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** One round of work, connected and waiting; {@link #run} does it once, {@link #close} verifies it. */
final class Round {
    private static final int STALL_SECONDS = 60;
    private static final int POLL_MS = 20;

    private final Work work;
    private final Tally tally;
    private final Schedule schedule;
    private final Latencies latencies;
    private final List<Link> links = new ArrayList<>();
    private final List<Sender> senders = new ArrayList<>();
    private final List<Receiver> receivers = new ArrayList<>();
    private final Pinger pinger;

    Round(Work work) throws Exception {
        this.work = work;
        tally = new Tally(work);
        schedule = work.rate > 0 ? new Schedule(work.rate) : null;
        latencies = new Latencies(schedule, work.expected());
        for (int i = 0; i < work.consumers; i++) {
            receivers.add(new Receiver(work, i, tally, latencies, link("receiver-" + i)));
        }
        for (int i = 0; work.send && i < work.sources; i++) {
            senders.add(new Sender(work, i, schedule, work.shared ? links.get(i) : link("sender-" + i)));
        }
        pinger = work.pings > 0 ? new Pinger(work) : null;
    }

    private Link link(String name) throws Exception {
        Link link = Link.open(work, name);
        links.add(link);
        return link;
    }

    /** Do the work and return its figures as JSON. */
    String run() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(Math.max(1, senders.size()));
        try {
            long start = System.nanoTime();
            for (Receiver receiver : receivers) {
                receiver.start();
            }
            if (pinger != null) {
                pinger.start();
            }
            if (schedule != null) {
                schedule.start();
            }
            List<Future<Long>> sending = new ArrayList<>();
            for (Sender sender : senders) {
                sending.add(threads.submit(sender));
            }
            waitFor(sending);
            if (pinger != null) {
                pinger.finish();
            }
            long sentAt = start;
            for (Future<Long> future : sending) {
                sentAt = Math.max(sentAt, future.get());
            }
            return figures(start, sentAt);
        } finally {
            threads.shutdownNow();
        }
    }

    private void waitFor(List<Future<Long>> sending) throws Exception {
        long progress = -1;
        long movedAt = System.nanoTime();
        while (!tally.isFinished() || !sending.stream().allMatch(Future::isDone)) {
            Thread.sleep(POLL_MS); // who finishes notes the time himself
            raiseFailures(sending);
            long sent = senders.stream().mapToLong(Sender::sent).sum();
            if (sent + tally.arrived() != progress) {
                progress = sent + tally.arrived();
                movedAt = System.nanoTime();
            } else if (System.nanoTime() - movedAt > TimeUnit.SECONDS.toNanos(STALL_SECONDS)) {
                throw new IllegalStateException(String.format(
                        "nothing moves for %d s: %d sent, %d arrived; %s",
                        STALL_SECONDS, sent, tally.arrived(), tally.problem()));
            }
        }
    }

    private void raiseFailures(List<Future<Long>> sending) throws Exception {
        for (Future<Long> future : sending) {
            if (future.isDone()) {
                future.get(); // raises what the sender raised
            }
        }
        for (Receiver receiver : receivers) {
            if (receiver.failure() != null) {
                throw receiver.failure();
            }
        }
    }

    private String figures(long start, long sentAt) {
        long end = work.consumers == 0 ? sentAt : Math.max(sentAt, tally.finishedAt());
        StringBuilder parts = new StringBuilder();
        if (!senders.isEmpty()) {
            for (long partAt : senders.get(0).partAt()) {
                parts.append(parts.length() == 0 ? "" : ", ").append(seconds(partAt - start));
            }
        }
        return String.format(
                "{\"seconds\": %s, \"send_seconds\": %s, \"arrived\": %d, \"tenths\": [%s], \"latency\": %s}",
                seconds(end - start),
                seconds(sentAt - start),
                tally.arrived(),
                parts,
                (pinger == null ? latencies : pinger.latencies()).summary());
    }

    private static String seconds(long nanoseconds) {
        return Double.toString(nanoseconds / 1e9);
    }

    /** End the connections; fails if a message was missing, repeated, damaged or out of order. */
    void close() throws Exception {
        if (pinger != null) {
            pinger.close();
        }
        for (Link link : links) {
            link.close();
        }
        if (!tally.problem().isEmpty()) {
            throw new IllegalStateException(tally.problem());
        }
    }
}
