-- The shop in operation: `sysbench oltp.lua … run`, called by load.sh. One event is one transaction.
--
-- Seven of ten transactions only read. Written text is of the same kind as the existing text, so that the data files
-- stay as compressible as they were.

local durations = require("durations")
local text = require("text")
local format = string.format

sysbench.cmdline.options = {
   seed = { "Seed of the generator", 1 },
   mix = { "What the transactions do: all, reads or writes", "all" },
   log = durations.option,
}

-- Some customers and products are far busier than others. The multiplier scatters the busy ones over the table:
-- neighbours in rank are not on neighbouring pages.
local SCATTER = 48271
local function busy(count)
   return (sysbench.rand.default(1, count) * SCATTER) % count + 1
end

local function count_rows(name)
   return tonumber(connection:query_row("SELECT MAX(id) FROM " .. name))
end

function thread_init()
   connection = sysbench.sql.driver():connect()
   random = text.generator(sysbench.opt.seed * 7919 + sysbench.tid)
   customers, products, orders = count_rows("customers"), count_rows("products"), count_rows("orders")
   messages, sessions = count_rows("messages"), count_rows("sessions")
   -- Each thread deletes its own part of the old events, the oldest first.
   local events = count_rows("events")
   local share = math.floor(events / sysbench.opt.threads)
   oldest, oldest_end = sysbench.tid * share + 1, (sysbench.tid + 1) * share
   clock = events * 490
   log = durations.open()
end

function thread_done()
   connection:disconnect()
   if log then log:close() end
end

local function now()
   clock = clock + 1
   return text.timestamp(clock)
end

local function log_event(customer, kind)
   connection:query(format("INSERT INTO events (at, customer, kind, document) VALUES ('%s', %d, '%s', '%s')", now(), customer,
      kind, text.event_document(random, kind)))
end

local function browse()
   local customer = busy(customers)
   connection:query("SELECT given, family, preferences FROM customers WHERE id = " .. customer)
   for _ = 1, 4 do
      connection:query("SELECT title, description, attributes, price, stock FROM products WHERE id = " .. busy(products))
   end
   local session = busy(sessions)
   connection:query("SELECT token, customer FROM sessions WHERE id = " .. session)
end

local function history()
   local customer = busy(customers)
   connection:query(format("SELECT id, state, total, placed FROM orders WHERE customer = %d ORDER BY placed DESC LIMIT 10", customer))
   connection:query(format("SELECT at, kind, document FROM events WHERE customer = %d ORDER BY at DESC LIMIT 20", customer))
   local order = busy(orders)
   connection:query(format("SELECT * FROM order_lines WHERE order_id BETWEEN %d AND %d", order, order + 20))
end

local function read_messages()
   local message = busy(messages)
   connection:query(format("SELECT subject, body FROM messages WHERE id BETWEEN %d AND %d", message, message + 10))
end

local function buy()
   local customer = busy(customers)
   connection:query("BEGIN")
   connection:query(format("INSERT INTO orders (customer, state, total, currency, placed, note) VALUES (%d, 'new', %d.%02d, '%s', '%s', '%s')",
      customer, random.between(5, 2000), random.between(0, 99), random.pick(text.CURRENCIES), now(),
      text.words(random, random.between(0, 12))))
   for line = 1, random.between(1, 4) do
      local product = busy(products)
      connection:query(format("INSERT INTO order_lines VALUES (LAST_INSERT_ID(), %d, %d, %d, %d.%02d)", line, product,
         random.between(1, 9), random.between(1, 900), random.between(0, 99)))
   end
   connection:query(format("UPDATE products SET stock = stock - 1 WHERE id = %d", busy(products)))
   connection:query("COMMIT")
   log_event(customer, "checkout")
end

local function change_preferences()
   local customer = busy(customers)
   connection:query("BEGIN")
   connection:query(format("UPDATE customers SET preferences = '%s' WHERE id = %d", text.preferences(random), customer))
   log_event(customer, "login")
   connection:query("COMMIT")
end

local function process_order()
   connection:query(format("UPDATE orders SET state = '%s' WHERE id = %d", random.pick(text.STATES), busy(orders)))
end

local function edit_text()
   if random.between(1, 2) == 1 then
      connection:query(format("UPDATE products SET description = '%s', updated = '%s' WHERE id = %d",
         text.prose(random, random.between(300, 2200)), now(), busy(products)))
   else
      connection:query(format("INSERT INTO messages (customer, created, subject, body) VALUES (%d, '%s', '%s', '%s')",
         busy(customers), now(), text.title(random), text.prose(random, random.between(200, 4200))))
   end
end

local function clear_events()
   if oldest + 9 > oldest_end then return history() end
   connection:query(format("DELETE FROM events WHERE id BETWEEN %d AND %d", oldest, oldest + 9))
   oldest = oldest + 10
end

-- Of a hundred transactions, the number of each kind, and whether the kind writes.
local MIX = {
   { 35, browse, false }, { 25, history, false }, { 10, read_messages, false }, { 10, buy, true },
   { 8, change_preferences, true }, { 6, process_order, true }, { 4, edit_text, true }, { 2, clear_events, true },
}

-- The kinds that --mix selects, and the sum of their shares.
local kinds, total
local function choose_kinds()
   kinds, total = {}, 0
   for _, kind in ipairs(MIX) do
      if sysbench.opt.mix == "all" or (sysbench.opt.mix == "writes") == kind[3] then
         kinds[#kinds + 1] = kind
         total = total + kind[1]
      end
   end
end

local function transact()
   local draw = random.between(1, total)
   for _, kind in ipairs(kinds) do
      draw = draw - kind[1]
      if draw <= 0 then return kind[2]() end
   end
end

function event()
   if not kinds then choose_kinds() end
   durations.timed(log, transact)
end
