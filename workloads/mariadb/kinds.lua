-- Four InnoDB tables of different kinds, one for each table of the compression report that campaigns/innodb.toml
-- repeats: `sysbench kinds.lua --table=table1 --mib=172 prepare`. They differ in compressibility because of their
-- content:
--
--   table1  a shop's events: JSON documents with repeated keys, a few words, numbers, a session's id
--   table2  messages: prose, with a vocabulary as large as that of people
--   table3  a monitoring system's results: the same hosts, checks and sentences every minute, in which few digits change
--   table4  photographs: file names and captions with keys and MD5 sums, which are noise in letters
--
-- One connection inserts rows in the order of their key until the file has the wanted size.

local text = require("text")
local shop = require("tables")
local format = string.format

sysbench.cmdline.options = {
   table = { "table1, table2, table3 or table4", "table1" },
   mib = { "Size of its file, in MiB", 16 },
   seed = { "Seed of the generator", 1 },
}

local function shop_table(name)
   for _, plan in ipairs(shop.list) do
      if plan.name == name then return plan end
   end
end

local HEX = "0123456789abcdef"
local function hex(random, length)
   local list = {}
   for i = 1, length do
      local at = 1 + random.between(0, 15)
      list[i] = HEX:sub(at, at)
   end
   return table.concat(list)
end

-- The shop's event with its session: 32 random bytes in base64.
local function event(random, id)
   local kind = random.pick(text.KINDS)
   local document = text.event_document(random, kind):gsub("}$", format(', "session": "%s"}', text.token(random, 43)))
   return format("(%d,'%s',%d,'%s','%s')", id, text.timestamp(id * 490), random.between(1, 120000), kind, document)
end

local CHECKS = {
   { "load", "OK - load average: 0.%02d, 0.%02d, 0.%02d", 99 },
   { "disk", "DISK OK - free space: / 48%02d MB (61 percent inode=97 percent); /boot 3%02d MB (72 percent inode=99 percent)", 99 },
   { "mysql", "Uptime: 18144%02d  Threads: %d  Slow queries: 0  Opens: 1417  Open tables: 64  Queries per second avg: 2%d", 9 },
   { "http", "HTTP OK: HTTP/1.1 200 OK - 482%d bytes in 0.0%02d second response time, %d ms to first byte", 99 },
   { "ntp", "NTP OK: Offset -0.0000%02d secs, jitter=0.0%02d, stratum=2, truechimers=%d", 9 },
}

-- Every host's checks one after another, then those of the next minute.
local HOSTS = 60
local function check_result(random, id)
   local check = CHECKS[1 + (id - 1) % #CHECKS]
   local host = math.floor((id - 1) / #CHECKS) % HOSTS
   local minute = math.floor((id - 1) / (#CHECKS * HOSTS))
   return format("(%d,'%s','db%03d.eu-central.example.com','check_%s','active','hard','ok',1,4,'%s','%s','%s')", id,
      text.timestamp(minute * 60), host, check[1],
      format(check[2], random.between(0, check[3]), random.between(1, check[3]), random.between(0, 9)),
      format("/usr/lib/nagios/plugins/check_%s -H db%03d.eu-central.example.com -w 15,10,5 -c 30,25,20 --timeout 30", check[1], host),
      format('{"notifications": true, "flapping": false, "acknowledged": false, "contact_group": "database-admins", '
         .. '"check_interval_s": 60, "retry_interval_s": 15, "latency_ms": %d, "event": "%s"}', random.between(0, 40), hex(random, 16)))
end

local CAMERAS = {
   "Canon EOS 5D", "Canon EOS 40D", "Canon EOS DIGITAL REBEL XTi", "NIKON D300", "NIKON D80", "SONY DSLR-A700",
   "Canon PowerShot G9", "Panasonic DMC-FZ18",
}

local function photograph(random, id)
   local caption = random.between(1, 3) == 1 and text.words(random, random.between(2, 14)) or ""
   return format("(%d,%d,'%s','%s','%s%04d.JPG','%s','%s','%s',%d,%d,%d,'%s')", id, math.floor(id / 60), text.token(random, 6),
      hex(random, 32), random.pick({ "IMG_", "DSC_", "DSCF", "P101" }), id % 10000, random.pick(CAMERAS), caption,
      random.between(1, 2) == 1 and text.words(random, random.between(1, 4)) or "",
      random.between(600, 4288), random.between(400, 2848), random.between(180000, 9000000), text.timestamp(id * 97))
end

local kinds = {
   table1 = { batch = shop_table("events").batch, schema = shop_table("events").schema, row = event },
   table2 = shop_table("messages"),
   table3 = {
      batch = 300,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, at DATETIME NOT NULL, host VARCHAR(64) NOT NULL,
         service VARCHAR(64) NOT NULL, kind VARCHAR(16) NOT NULL, state_type VARCHAR(16) NOT NULL, state VARCHAR(16) NOT NULL,
         attempt TINYINT NOT NULL, attempts TINYINT NOT NULL, output VARCHAR(255) NOT NULL, command VARCHAR(255) NOT NULL,
         details JSON NOT NULL]],
      row = check_result,
   },
   table4 = {
      batch = 600,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, album INT UNSIGNED NOT NULL, code CHAR(6) NOT NULL,
         md5 VARCHAR(32) NOT NULL, file VARCHAR(64) NOT NULL, camera VARCHAR(64) NOT NULL,
         caption VARCHAR(255) NOT NULL, keywords VARCHAR(255) NOT NULL, width SMALLINT UNSIGNED NOT NULL, height SMALLINT UNSIGNED NOT NULL, bytes INT UNSIGNED NOT NULL, taken DATETIME NOT NULL,
         KEY album (album)]],
      row = photograph,
   },
}

local function file_bytes(connection, name)
   return tonumber(connection:query_row("SELECT FILE_SIZE FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME = 'kinds/"
      .. name .. "'"))
end

local function fill()
   local name, plan = sysbench.opt.table, kinds[sysbench.opt.table]
   if not plan then error("unknown kind " .. name) end
   local connection = sysbench.sql.driver():connect()
   local random = text.generator(sysbench.opt.seed * 1000003)
   connection:query("CREATE TABLE " .. name .. " (" .. plan.schema .. ") ENGINE=InnoDB")
   local id, wanted = 0, sysbench.opt.mib * 1048576
   repeat
      local rows = {}
      for _ = 1, plan.batch do
         id = id + 1
         rows[#rows + 1] = plan.row(random, id, 1)
      end
      connection:query("INSERT INTO " .. name .. " VALUES " .. table.concat(rows, ","))
   until file_bytes(connection, name) >= wanted
   connection:disconnect()
end

sysbench.cmdline.commands = { prepare = { fill } }
