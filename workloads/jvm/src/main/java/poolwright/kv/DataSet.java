package poolwright.kv;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import java.util.SplittableRandom;
import poolwright.driver.Failure;
import poolwright.driver.Parameters;

/** The entries of a run. Each one depends only on its number and the seed, so that a reader knows the expected content. */
interface DataSet {
    /** Returns the key of entry {@code number}. */
    byte[] key(long number);

    /** Returns the value of entry {@code number} after a number of changes; it differs after each change. */
    byte[] value(long number, long change);

    /** Returns the data set that the parameters describe. */
    static DataSet of(Parameters parameters, long seed) {
        String kind = parameters.oneOf("data", "random", "random", "json");
        if (kind.equals("json")) {
            return new JsonSet(seed);
        }
        boolean ordered = parameters.oneOf("keys", "random", "random", "ordered").equals("ordered");
        long bytes = parameters.size("value", "1K");
        if (bytes > Integer.MAX_VALUE / 2) {
            throw new Failure("value must be at most 1G, not " + bytes);
        }
        return new RandomSet(seed, (int) bytes, ordered);
    }

    /** Returns the concatenated values of the first entries, up to a number of bytes. */
    default byte[] sample(long entries, int bytes) {
        ByteBuffer out = ByteBuffer.allocate(bytes);
        for (long number = 0; number < entries && out.hasRemaining(); number++) {
            byte[] value = value(number, 0);
            out.put(value, 0, Math.min(value.length, out.remaining()));
        }
        return Arrays.copyOf(out.array(), out.position());
    }

    /** Mixes the bits of a number: a bijection that maps neighbours to unrelated numbers (the finaliser of SplitMix64). */
    static long mix(long number) {
        long mixed = number;
        mixed = (mixed ^ (mixed >>> 30)) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
        return mixed ^ (mixed >>> 31);
    }

    /** Returns a source of random numbers for one version of one entry. */
    static SplittableRandom random(long seed, long number, long change) {
        return new SplittableRandom(mix(seed + mix(number + mix(change + 1))));
    }

    static byte[] hex(String before, long number, String after) {
        return String.format(Locale.ROOT, "%s%016x%s", before, number, after).getBytes(StandardCharsets.US_ASCII);
    }
}
