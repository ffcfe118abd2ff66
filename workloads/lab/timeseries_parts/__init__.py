"""The parts of the timeseries driver."""
