package poolwright.kv;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * A value and the clock of its write. The engine's record of a key is the concatenation of its versions: the clock, the
 * value's length (4 bytes, big-endian), the value.
 */
record Versioned(byte[] value, VectorClock clock) {
    static byte[] write(List<Versioned> versions) {
        int length = 0;
        for (Versioned version : versions) {
            length += version.clock.length() + Integer.BYTES + version.value.length;
        }
        ByteBuffer out = ByteBuffer.allocate(length);
        for (Versioned version : versions) {
            version.clock.write(out);
            out.putInt(version.value.length).put(version.value);
        }
        return out.array();
    }

    /** Parses a record; throws if the bytes are not a valid record, because the database is then damaged. */
    static List<Versioned> read(byte[] record) {
        List<Versioned> versions = new ArrayList<>(1);
        ByteBuffer in = ByteBuffer.wrap(record);
        try {
            while (in.hasRemaining()) {
                VectorClock clock = VectorClock.read(in);
                byte[] value = new byte[in.getInt()];
                in.get(value);
                versions.add(new Versioned(value, clock));
            }
        } catch (BufferUnderflowException | NegativeArraySizeException damaged) {
            throw new IllegalStateException("a record of " + record.length + " bytes is damaged", damaged);
        }
        return versions;
    }
}
