-- Records a client's transactions: for each, the end and the duration as two 64-bit numbers, in nanoseconds of the
-- monotonic clock. `--log=FILE` of the scripts that use this module names the file; each thread appends its number
-- to the name.

local ffi = require("ffi")

ffi.cdef("typedef struct { long s, ns; } durations_time; int clock_gettime(int, durations_time *);")
local MONOTONIC = 1
local clock_now, pair = ffi.new("durations_time"), ffi.new("int64_t[2]")

local durations = {}

-- For `sysbench.cmdline.options`.
durations.option = { "File that each thread, its number appended, writes the end and the duration of its transactions to: two " ..
                     "64-bit numbers each, nanoseconds of the monotonic clock", "" }

-- Opens the thread's file, if --log names one.
function durations.open()
   if sysbench.opt.log ~= "" then
      return assert(io.open(sysbench.opt.log .. "." .. sysbench.tid, "wb"))
   end
end

local function monotonic_ns()
   ffi.C.clock_gettime(MONOTONIC, clock_now)
   return clock_now.s * 1000000000LL + clock_now.ns
end

-- Calls `transact`, and appends its end and duration to the log, if there is one.
function durations.timed(log, transact)
   if not log then return transact() end
   local began = monotonic_ns()
   transact()
   pair[0] = monotonic_ns()
   pair[1] = pair[0] - began
   log:write(ffi.string(pair, 16))
end

return durations
