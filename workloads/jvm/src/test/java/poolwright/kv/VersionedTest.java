package poolwright.kv;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import poolwright.kv.VectorClock.Order;

class VersionedTest {
    private static VectorClock clock(int... nodes) {
        VectorClock clock = VectorClock.EMPTY;
        for (int node : nodes) {
            clock = clock.writtenBy(node, 5);
        }
        return clock;
    }

    @Test
    void clocksAreOrderedByWhatTheyKnow() {
        assertEquals(Order.SAME, clock(1, 2).compare(clock(2, 1)));
        assertEquals(Order.AFTER, clock(1, 1).compare(clock(1)));
        assertEquals(Order.BEFORE, clock(1).compare(clock(1, 2)));
        assertEquals(Order.CONCURRENT, clock(1).compare(clock(2)));
        assertEquals(Order.CONCURRENT, clock(1, 1, 2).compare(clock(1, 2, 2)));
        assertEquals(Order.BEFORE, VectorClock.EMPTY.compare(clock(9)));
    }

    @Test
    void aMergedClockDescendsFromBoth() {
        VectorClock merged = clock(1, 1, 2).merged(clock(1, 2, 2));
        assertEquals(Order.AFTER, merged.compare(clock(1, 1, 2)));
        assertEquals(Order.AFTER, merged.compare(clock(1, 2, 2)));
        assertEquals(2, merged.count(1));
        assertEquals(0, merged.count(7));
    }

    @Test
    void recordsComeBack() {
        List<Versioned> versions =
                List.of(new Versioned(new byte[] {1, 2, 3}, clock(1, 70000, 3)), new Versioned(new byte[0], clock(2)));
        List<Versioned> read = Versioned.read(Versioned.write(versions));
        assertEquals(2, read.size());
        for (int number = 0; number < 2; number++) {
            assertEquals(versions.get(number).clock(), read.get(number).clock());
            assertArrayEquals(versions.get(number).value(), read.get(number).value());
        }
    }

    @Test
    void damagedRecordsAreRefused() {
        byte[] record = Versioned.write(List.of(new Versioned(new byte[] {1, 2, 3}, clock(1))));
        for (int length = 1; length < record.length; length++) {
            byte[] cut = Arrays.copyOf(record, length);
            assertThrows(IllegalStateException.class, () -> Versioned.read(cut));
        }
    }
}
