-- Text as people and programs write it: words by Zipf's law, names, addresses, JSON documents, time stamps.
--
-- Everything comes from a seeded generator, so that the same seed gives the same bytes on every machine. No value
-- contains a single quote or a backslash, so all values can be inserted into SQL strings unescaped.

local bit = require("bit")
local bxor, lshift, rshift, band = bit.bxor, bit.lshift, bit.rshift, bit.band
local format, concat, sub, upper = string.format, table.concat, string.sub, string.upper

local text = {}

-- Marsaglia's xorshift with 32 bits of state, seeded through a mixing step so that neighbouring seeds give unrelated
-- sequences.
function text.generator(seed)
   local state = bxor(seed * 40503 + 1013904223, 0)
   for _ = 1, 4 do
      state = bxor(state, rshift(state, 15))
      state = bxor(state, lshift(state, 7), 0x2545f491)
   end
   if state == 0 then state = 88172645 end
   local function next_bits()
      state = bxor(state, lshift(state, 13))
      state = bxor(state, rshift(state, 17))
      state = bxor(state, lshift(state, 5))
      return state
   end
   local random = {}
   -- Returns an integer from low to high, both included.
   function random.between(low, high)
      return low + band(next_bits(), 0x7fffffff) % (high - low + 1)
   end
   function random.pick(list)
      return list[1 + band(next_bits(), 0x7fffffff) % #list]
   end
   random.bits = next_bits
   return random
end

local function words_of(line)
   local list = {}
   for word in line:gmatch("%S+") do list[#list + 1] = word end
   return list
end

local COMMON = words_of [[
the of and to in is for that with on it was as this by be are at from or have not your you we our they can has but
which will all one new when more were been if their there would what so up out about who get like just now than then
some only order please thank received after before delivery parcel return refund price product size colour would could
should arrived yesterday today tomorrow still waiting because very good quality material box broken missing wrong item
payment card invoice account address change update email number call back help support team customer service question
answer ask need want know see look find found make made use used work works working first last next week month day hour
time long short small large light dark warm soft strong weather summer winter outdoor indoor garden kitchen house room
table chair lamp bag shoe jacket shirt trousers blanket bottle cup plate knife pan bicycle tent rope tool screw hammer
paper pen book print cable charger battery screen keyboard stand cover case clean wash dry store keep easy simple
]]
local ONSETS = words_of "b c d f g h k l m n p r s t v w br ch cl cr dr fl gr pl pr sh sl st str th tr"
local VOWELS = words_of "a e i o u ai ea ee ou oa"
local CODAS = words_of "n r l s t d m nd nt st rt ck ng ll"
local ENDINGS = words_of "ing ed er ly ion ness able ment al ous ity ive"

local GIVEN = words_of [[
Anna Maria Peter Johan Lena Paul Clara Martin Sofia Lukas Emma David Laura Jonas Julia Erik Nora Felix Alice Hugo Ida Oscar
Elena Marco Giulia Luca Chiara Pablo Carmen Diego Lucia Ines Joao Marta Tiago Amelia George Olivia Harry Grace Thomas Helen
Robert Susan James Linda Michael Karen Yuki Haruto Mei Wei Priya Arjun Fatima Omar Leila Yusuf Aisha Samuel Ngozi Kwame Abena
]]
local FAMILY = words_of [[
Andersson Bauer Becker Berg Bianchi Brown Carter Castro Chen Clark Costa Dahl Davies Dubois Evans Fernandez Fischer Fontana
Garcia Gruber Hall Hansen Harris Hoffmann Hughes Ito Jensen Johnson Kaya Keller Khan Kim Kovacs Kowalski Larsen Laurent Lee
Lewis Lopez Martinez Meyer Moore Moreau Morris Mueller Nakamura Nguyen Nielsen Novak Okafor Olsen Osei Patel Petrov Ricci
Roberts Rossi Russo Sanchez Santos Sato Schmidt Schneider Silva Singh Smith Svensson Takahashi Tanaka Taylor Thompson Torres
Turner Varga Vogel Wagner Walker Wang Weber White Williams Wilson Wood Wright Yamamoto Yilmaz Young Zhang Zimmermann
]]
local CITIES = {
   { "Hamburg", "DE" }, { "Berlin", "DE" }, { "Leipzig", "DE" }, { "Vienna", "AT" }, { "Graz", "AT" }, { "Zurich", "CH" },
   { "Lyon", "FR" }, { "Nantes", "FR" }, { "Lille", "FR" }, { "Turin", "IT" }, { "Bologna", "IT" }, { "Madrid", "ES" },
   { "Valencia", "ES" }, { "Porto", "PT" }, { "Lisbon", "PT" }, { "Leeds", "GB" }, { "Bristol", "GB" }, { "Glasgow", "GB" },
   { "Cork", "IE" }, { "Utrecht", "NL" }, { "Ghent", "BE" }, { "Aarhus", "DK" }, { "Malmo", "SE" }, { "Bergen", "NO" },
   { "Tampere", "FI" }, { "Gdansk", "PL" }, { "Brno", "CZ" }, { "Budapest", "HU" }, { "Izmir", "TR" }, { "Osaka", "JP" },
   { "Kyoto", "JP" }, { "Pune", "IN" }, { "Accra", "GH" }, { "Lagos", "NG" }, { "Boston", "US" }, { "Denver", "US" },
}
local MAIL_HOSTS = words_of "example.com example.org example.net mail.example.com post.example.org"
local AGENTS = {
   "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
   "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
   "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
   "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
   "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
   "shop-app/4.12.1 (Android 13)", "shop-app/4.12.0 (iOS 17.4)",
}
local PAGES = words_of "home search category product basket checkout account orders help returns"
local STREETS = words_of "Street Road Lane Avenue Square Way Gardens Hill"
local COLOURS = words_of "black white grey blue green red yellow brown beige navy"
local MATERIALS = words_of "cotton wool steel oak pine leather linen glass aluminium rubber polyester"
text.KINDS = words_of "page_view search add_to_basket remove_from_basket checkout login logout newsletter rating"
text.STATES = words_of "new paid packed shipped delivered returned cancelled"
text.CURRENCIES = words_of "EUR EUR EUR GBP USD CHF SEK DKK JPY"

-- The vocabulary is the same for every seed, like that of a language.
local VOCABULARY_SIZE = 8000
local SLOTS = 131072

local function syllable_word(random)
   local parts = {}
   for i = 1, random.between(1, 3) do
      parts[i] = random.pick(ONSETS) .. random.pick(VOWELS) .. (random.between(1, 3) == 1 and random.pick(CODAS) or "")
   end
   if random.between(1, 3) == 1 then parts[#parts + 1] = random.pick(ENDINGS) end
   return concat(parts)
end

local function make_vocabulary()
   local random, seen, list = text.generator(1), {}, {}
   for _, word in ipairs(COMMON) do
      if not seen[word] then seen[word] = true; list[#list + 1] = word end
   end
   while #list < VOCABULARY_SIZE do
      local word = syllable_word(random)
      if not seen[word] then seen[word] = true; list[#list + 1] = word end
   end
   return list
end

-- A slot table instead of a search for each word: word r gets a share of slots of 1 / (r + 2.7), the Zipf-Mandelbrot
-- law with constants that fit English.
local function make_slots(vocabulary)
   local total, slots, filled, cumulated = 0, {}, 0, 0
   for rank = 1, #vocabulary do total = total + 1 / (rank + 2.7) end
   for rank, word in ipairs(vocabulary) do
      cumulated = cumulated + 1 / (rank + 2.7)
      local last = math.floor(cumulated / total * SLOTS + 0.5)
      for slot = filled + 1, last do slots[slot] = word end
      filled = math.max(filled, last)
   end
   return slots
end

local vocabulary = make_vocabulary()
local slots = make_slots(vocabulary)
local WORD_MASK = SLOTS - 1

function text.word(random) return slots[1 + band(rshift(random.bits(), 7), WORD_MASK)] end

local function capital(word) return upper(sub(word, 1, 1)) .. sub(word, 2) end

function text.words(random, count)
   local list = {}
   for i = 1, count do list[i] = text.word(random) end
   return concat(list, " ")
end

-- Returns sentences of 5 to 18 words until the text has at least this many bytes.
function text.prose(random, bytes)
   local list, length = {}, 0
   while length < bytes do
      local sentence = capital(text.words(random, random.between(5, 18)))
      if random.between(1, 4) == 1 then sentence = sentence .. ", " .. text.words(random, random.between(3, 8)) end
      list[#list + 1] = sentence
      length = length + #sentence + 2
   end
   return concat(list, ". ") .. "."
end

function text.title(random) return capital(text.words(random, random.between(2, 6))) end

function text.person(random)
   local given, family = random.pick(GIVEN), random.pick(FAMILY)
   return given, family
end

function text.email(random, given, family, id)
   return format("%s.%s%d@%s", given:lower(), family:lower(), id, random.pick(MAIL_HOSTS))
end

function text.phone(random)
   return format("+%d %d %d", random.between(30, 49), random.between(100, 999), random.between(1000000, 9999999))
end

function text.place(random)
   local city = random.pick(CITIES)
   local street = format("%s %s %d", capital(vocabulary[random.between(200, 1400)]), random.pick(STREETS), random.between(1, 180))
   return street, city[1], city[2]
end

-- Second 0 is the start of the shop; a month has 28 days, so that every date is valid.
function text.timestamp(second)
   local minute = math.floor(second / 60)
   local hour = math.floor(minute / 60)
   local day = math.floor(hour / 24)
   local month = math.floor(day / 28)
   return format("%04d-%02d-%02d %02d:%02d:%02d", 2021 + math.floor(month / 12), 1 + month % 12, 1 + day % 28, hour % 24,
      minute % 60, second % 60)
end

function text.sku(number) return format("%s-%05d", sub(upper(vocabulary[220 + number % 900]), 1, 4), number) end

local function flag(random) return random.between(0, 1) == 1 and "true" or "false" end

function text.preferences(random)
   return format('{"language": "%s", "newsletter": %s, "currency": "%s", "theme": "%s", "interests": ["%s", "%s", "%s"], '
      .. '"notifications": {"email": %s, "push": %s, "sms": %s}, "last_search": "%s"}',
      random.pick(CITIES)[2]:lower(), flag(random), random.pick(text.CURRENCIES), random.pick(COLOURS), random.pick(COLOURS),
      random.pick(MATERIALS), text.word(random), flag(random), flag(random), flag(random),
      text.words(random, random.between(1, 4)))
end

function text.attributes(random)
   return format('{"colour": "%s", "material": "%s", "weight_g": %d, "dimensions_mm": [%d, %d, %d], "tags": ["%s", "%s"]}',
      random.pick(COLOURS), random.pick(MATERIALS), random.between(20, 9000), random.between(10, 900), random.between(10, 900),
      random.between(10, 400), text.word(random), text.word(random))
end

function text.event_document(random, kind)
   local city = random.pick(CITIES)
   return format('{"kind": "%s", "page": "/%s/%d", "referrer": "https://www.example.com/%s", "user_agent": "%s", '
      .. '"duration_ms": %d, "query": "%s", "basket": [{"sku": "%s", "quantity": %d}, {"sku": "%s", "quantity": %d}], '
      .. '"geo": {"city": "%s", "country": "%s"}}',
      kind, random.pick(PAGES), random.between(1, 20000), random.pick(PAGES), random.pick(AGENTS), random.between(3, 90000),
      text.words(random, random.between(1, 4)), text.sku(random.between(1, 20000)), random.between(1, 5),
      text.sku(random.between(1, 20000)), random.between(1, 5), city[1], city[2])
end

-- Session tokens and hashes are noise in real data too; they are a small part of the data.
local BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
function text.token(random, length)
   local list = {}
   for i = 1, length do
      local at = 1 + band(rshift(random.bits(), 11), 63)
      list[i] = sub(BASE64, at, at)
   end
   return concat(list)
end

function text.ip(random)
   return format("198.51.%d.%d", random.between(0, 255), random.between(1, 254))
end

return text
