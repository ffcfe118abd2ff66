package poolwright.kv;

/**
 * Incompressible values of equal length with keys of 16 characters.
 *
 * @param bytes length of each value
 * @param ordered whether keys grow with the number, so that entries are loaded in the order of their keys; otherwise they are
 *     scattered
 */
record RandomSet(long seed, int bytes, boolean ordered) implements DataSet {
    @Override
    public byte[] key(long number) {
        return DataSet.hex("", ordered ? number : DataSet.mix(DataSet.mix(seed) ^ number), "");
    }

    @Override
    public byte[] value(long number, long change) {
        byte[] value = new byte[bytes];
        DataSet.random(seed, number, change).nextBytes(value);
        return value;
    }
}
