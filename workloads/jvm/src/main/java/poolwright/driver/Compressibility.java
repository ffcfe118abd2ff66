package poolwright.driver;

import java.util.zip.Deflater;

/** Compressibility of a sample of the data, without which claims about compression cannot be interpreted. */
public final class Compressibility {
    private static final int LEVEL = 6;
    private static final int BYTES = 256;

    private Compressibility() {}

    /** Reports {@code data_entropy} (bits per byte, order 0) and {@code data_gzip6_ratio}. */
    public static void say(Report report, byte[] sample) {
        report.figure("data_entropy", entropy(sample), "count");
        report.figure("data_gzip6_ratio", gzipRatio(sample), "ratio");
    }

    /** Returns the order-0 Shannon entropy in bits per byte. */
    static double entropy(byte[] sample) {
        long[] counts = new long[BYTES];
        for (byte one : sample) {
            counts[one & (BYTES - 1)]++;
        }
        double bits = 0;
        for (long count : counts) {
            if (count > 0) {
                double share = (double) count / sample.length;
                bits -= share * Math.log(share) / Math.log(2);
            }
        }
        return bits;
    }

    static double gzipRatio(byte[] sample) {
        Deflater deflater = new Deflater(LEVEL, true);
        try {
            deflater.setInput(sample);
            deflater.finish();
            byte[] sink = new byte[1 << 16];
            long compressed = 0;
            while (!deflater.finished()) {
                compressed += deflater.deflate(sink);
            }
            return (double) sample.length / compressed;
        } finally {
            deflater.end();
        }
    }
}
