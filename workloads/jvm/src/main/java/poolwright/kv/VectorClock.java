package poolwright.kv;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * A vector clock: how often each node has written a value. Of two clocks, either one descends from the other, or they are
 * concurrent.
 *
 * <p>Stored as the number of nodes (2 bytes), then node (2) and count (8) each, then the time of the last write in milliseconds
 * (8), which is informative and does not affect the order. Big-endian.
 */
final class VectorClock {
    /** The relation of one clock to another. */
    enum Order {
        /** The other one descends from it. */
        BEFORE,
        SAME,
        /** It descends from the other one. */
        AFTER,
        /** Neither descends from the other. */
        CONCURRENT
    }

    static final VectorClock EMPTY = new VectorClock(new TreeMap<>(), 0);
    private static final int FRAME = Short.BYTES + Long.BYTES;
    private static final int ENTRY = Short.BYTES + Long.BYTES;

    private final SortedMap<Short, Long> counts;
    private final long writtenMs;

    private VectorClock(SortedMap<Short, Long> counts, long writtenMs) {
        this.counts = counts;
        this.writtenMs = writtenMs;
    }

    /** Returns the clock of the next write of {@code node}. */
    VectorClock writtenBy(int node, long nowMs) {
        SortedMap<Short, Long> more = new TreeMap<>(counts);
        more.merge((short) node, 1L, Long::sum);
        return new VectorClock(more, nowMs);
    }

    /** Returns how often a node has written. */
    long count(int node) {
        return counts.getOrDefault((short) node, 0L);
    }

    /** Returns the smallest clock that descends from both. */
    VectorClock merged(VectorClock other) {
        SortedMap<Short, Long> both = new TreeMap<>(counts);
        other.counts.forEach((node, count) -> both.merge(node, count, Math::max));
        return new VectorClock(both, Math.max(writtenMs, other.writtenMs));
    }

    Order compare(VectorClock other) {
        boolean more = knowsMoreThan(other);
        boolean less = other.knowsMoreThan(this);
        if (more && less) {
            return Order.CONCURRENT;
        }
        return more ? Order.AFTER : less ? Order.BEFORE : Order.SAME;
    }

    private boolean knowsMoreThan(VectorClock other) {
        for (Map.Entry<Short, Long> entry : counts.entrySet()) {
            if (entry.getValue() > other.counts.getOrDefault(entry.getKey(), 0L)) {
                return true;
            }
        }
        return false;
    }

    /** Returns the number of bytes that {@link #write} writes. */
    int length() {
        return FRAME + counts.size() * ENTRY;
    }

    void write(ByteBuffer out) {
        out.putShort((short) counts.size());
        counts.forEach((node, count) -> out.putShort(node).putLong(count));
        out.putLong(writtenMs);
    }

    static VectorClock read(ByteBuffer in) {
        int nodes = Short.toUnsignedInt(in.getShort());
        SortedMap<Short, Long> counts = new TreeMap<>();
        for (int node = 0; node < nodes; node++) {
            short name = in.getShort();
            counts.put(name, in.getLong());
        }
        return new VectorClock(counts, in.getLong());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof VectorClock clock && counts.equals(clock.counts);
    }

    @Override
    public int hashCode() {
        return counts.hashCode();
    }

    @Override
    public String toString() {
        return counts.toString();
    }
}
