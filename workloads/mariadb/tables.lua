-- The tables of a web shop and how each row is generated. fill.lua and oltp.lua share them.
--
-- They differ in compressibility: order lines are packed numbers, events are JSON with repeated keys, messages are
-- prose, sessions are mostly tokens.

local text = require("text")
local format = string.format

local tables = {}

-- rows: number at scale 1, which makes about 350 MB of InnoDB data. effort: approximate time of the fill in tenths
-- of seconds; only the proportions matter, for assigning the tables to threads.
tables.list = {
   {
      name = "customers", rows = 120000, batch = 500, effort = 60,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, given VARCHAR(40) NOT NULL, family VARCHAR(40) NOT NULL,
         email VARCHAR(120) NOT NULL, phone VARCHAR(30) NOT NULL, street VARCHAR(80) NOT NULL, city VARCHAR(40) NOT NULL,
         country CHAR(2) NOT NULL, created DATETIME NOT NULL, preferences JSON NOT NULL,
         UNIQUE KEY email (email), KEY family (family, given)]],
      row = function(random, id)
         local given, family = text.person(random)
         local street, city, country = text.place(random)
         return format("(%d,'%s','%s','%s','%s','%s','%s','%s','%s','%s')", id, given, family,
            text.email(random, given, family, id), text.phone(random), street, city, country,
            text.timestamp(id * 900), text.preferences(random))
      end,
   },
   {
      name = "products", rows = 20000, batch = 200, effort = 45,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(20) NOT NULL, title VARCHAR(120) NOT NULL,
         description TEXT NOT NULL, attributes JSON NOT NULL, price DECIMAL(10,2) NOT NULL, stock INT NOT NULL,
         updated DATETIME NOT NULL, UNIQUE KEY sku (sku), KEY title (title)]],
      row = function(random, id)
         return format("(%d,'%s','%s','%s','%s',%d.%02d,%d,'%s')", id, text.sku(id), text.title(random),
            text.prose(random, random.between(300, 2200)), text.attributes(random), random.between(1, 900),
            random.between(0, 99), random.between(0, 500), text.timestamp(id * 5000))
      end,
   },
   {
      name = "orders", rows = 300000, batch = 1000, effort = 50,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer INT UNSIGNED NOT NULL,
         state VARCHAR(12) NOT NULL, total DECIMAL(10,2) NOT NULL, currency CHAR(3) NOT NULL, placed DATETIME NOT NULL,
         note VARCHAR(200) NOT NULL, KEY customer (customer, placed)]],
      row = function(random, id, scale)
         local note = random.between(1, 4) == 1 and text.words(random, random.between(3, 20)):sub(1, 200) or ""
         return format("(%d,%d,'%s',%d.%02d,'%s','%s','%s')", id, random.between(1, 120000 * scale), random.pick(text.STATES),
            random.between(5, 2000), random.between(0, 99), random.pick(text.CURRENCIES), text.timestamp(id * 360), note)
      end,
   },
   {
      name = "order_lines", rows = 900000, batch = 3000, effort = 60,
      schema = [[order_id INT UNSIGNED NOT NULL, line TINYINT UNSIGNED NOT NULL, product INT UNSIGNED NOT NULL,
         quantity SMALLINT UNSIGNED NOT NULL, price DECIMAL(10,2) NOT NULL, PRIMARY KEY (order_id, line)]],
      row = function(random, id, scale)
         return format("(%d,%d,%d,%d,%d.%02d)", math.floor((id - 1) / 3) + 1, (id - 1) % 3 + 1,
            random.between(1, 20000 * scale), random.between(1, 9), random.between(1, 900), random.between(0, 99))
      end,
   },
   {
      name = "events", rows = 220000, batch = 500, effort = 90,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, at DATETIME NOT NULL, customer INT UNSIGNED NOT NULL,
         kind VARCHAR(20) NOT NULL, document JSON NOT NULL, KEY customer (customer, at)]],
      row = function(random, id, scale)
         local kind = random.pick(text.KINDS)
         return format("(%d,'%s',%d,'%s','%s')", id, text.timestamp(id * 490), random.between(1, 120000 * scale), kind,
            text.event_document(random, kind))
      end,
   },
   {
      name = "messages", rows = 26000, batch = 150, effort = 50,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer INT UNSIGNED NOT NULL,
         created DATETIME NOT NULL, subject VARCHAR(120) NOT NULL, body TEXT NOT NULL, KEY customer (customer)]],
      row = function(random, id, scale)
         return format("(%d,%d,'%s','%s','%s')", id, random.between(1, 120000 * scale), text.timestamp(id * 4100),
            text.title(random), text.prose(random, random.between(200, 4200)))
      end,
   },
   {
      name = "sessions", rows = 110000, batch = 800, effort = 30,
      schema = [[id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer INT UNSIGNED NOT NULL, token VARCHAR(88) NOT NULL,
         secret VARCHAR(88) NOT NULL, ip VARCHAR(15) NOT NULL, created DATETIME NOT NULL]],
      row = function(random, id, scale)
         return format("(%d,%d,'%s','%s','%s','%s')", id, random.between(1, 120000 * scale), text.token(random, 86),
            text.token(random, 86), text.ip(random), text.timestamp(id * 980))
      end,
   },
}

return tables
