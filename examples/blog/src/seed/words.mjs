// The raw material of the sample data: people, subjects, and sentences that fit any of them.

export const FIRST_NAMES = [
  "Mara", "Tomás", "Ingrid", "Kwame", "Yuki", "Elif", "Rafael", "Noor", "Sinead", "Aleksi", "Priya", "Matteo",
  "Zoë", "Dmitri", "Amara", "Lukas", "Farah", "Oskar", "Beatriz", "Hana", "Emeka", "Clara", "Jun", "Leila",
  "Viktor", "Anneke", "Samir", "Odile", "Rosa", "Callum", "Thandi", "Bruno", "Mei", "Fergus", "Salma", "Piotr",
  "Isolde", "Kofi", "Renske", "Gustavo",
];

export const LAST_NAMES = [
  "Lindqvist", "Okafor", "Moreau", "Tanaka", "Costa", "Haddad", "Novák", "Byrne", "Ferreira", "Iyer", "Koskinen",
  "Demir", "Rossi", "Mensah", "Weber", "Petrova", "Quist", "Silva", "Nakamura", "Adeyemi", "Larsen", "Duarte",
  "Wójcik", "Campbell", "Rahman", "Fontaine", "Bakker", "Sato", "Marín", "Eze", "Holm", "Keane", "Vargas", "Chen",
  "Amari", "Zielinski", "Brandt", "Osei", "Jansen", "Abreu",
];

/** Each subject with what only it can say. `name` fits into "a year of …" and "notes on …". */
export const SUBJECTS = [
  { name: "night trains", own: [
    "The berth is seventy centimetres wide, which is exactly the width of a decision you cannot take back.",
    "Somewhere after midnight the carriage is shunted, and you wake to find the world moving the other way.",
    "The attendant brings coffee at six and a landscape that was not there when you fell asleep."] },
  { name: "sourdough", own: [
    "The starter lives behind the radio, where it is warm, and seems to prefer the evening news.",
    "Seventy per cent water sounds precise until you meet a bag of flour that has been through a wet August.",
    "My best loaf came out of a day when I forgot it twice."] },
  { name: "tide tables", own: [
    "The printed time is for the harbour wall; our beach is eleven minutes behind and has never been told.",
    "A spring tide uncovers the old slipway, and for an hour everyone walks about on the bottom of the sea.",
    "Once you can read the columns, a week looks like breathing."] },
  { name: "pinhole cameras", own: [
    "A biscuit tin, a needle and eleven minutes of standing still: that is the whole machine.",
    "Everything is in focus and nothing is sharp, which is how I remember most things.",
    "People walk through the picture and leave no mark, unless they stop to ask what you are doing."] },
  { name: "mending bicycles", own: [
    "The left pedal has a left-handed thread, and everybody learns this the same way.",
    "A wheel is never true, only true enough, and it tells you which by singing.",
    "There is a jar of bolts on the bench; the one you need is at the bottom, and the jar is not see-through."] },
  { name: "hand-drawn maps", own: [
    "I drew the street from memory and left out the bank, which I pass every day.",
    "The scale is one to however far I felt like walking.",
    "My neighbour’s map of the same block has six dogs on it and no shops."] },
  { name: "the allotment", own: [
    "The courgettes were modest on Friday and by Sunday had become a problem for the whole street.",
    "Slugs cannot cross copper, says the book. Ours read a different book.",
    "You plant garlic on the shortest day and lift it on the longest, and feel for a moment like part of a clock."] },
  { name: "small telescopes", own: [
    "Saturn is the size of a lentil and still makes grown people swear.",
    "The cheapest upgrade is a folding chair; you see more when your neck does not hurt.",
    "In town you lose the galaxies and keep the double stars, which is a fair trade."] },
  { name: "letterpress", own: [
    "Type is set upside down and left to right, so you learn to read with a different part of your head.",
    "We ran out of the letter e on page two, as everyone does.",
    "The lead is cold when you start and the same warmth as your hand when you finish."] },
  { name: "choir practice", own: [
    "The altos always know, and never say, when the basses are lost.",
    "Sixty people breathing in at once is the best sound we make all evening.",
    "The radiators are in B flat. We have learned to live with it."] },
  { name: "chess by post", own: [
    "A move takes four days to arrive, so there is plenty of time to become a different player.",
    "My opponent writes about the weather first and the bishop second, and I have come to read both as threats.",
    "We are on move thirty-one. We started before my daughter could talk."] },
  { name: "winter swimming", own: [
    "The first minute is an argument, the second is a negotiation, and after that nobody is counting.",
    "The trick is to breathe out. The body sees to the rest.",
    "Afterwards a flask of tea is the best thing ever made by anyone."] },
  { name: "clock repair", own: [
    "It had stopped because somebody, in 1931, had been too generous with the oil.",
    "You put the screws down in the order they came out, in a circle, like a very small henge.",
    "When it starts again the whole room leans towards it."] },
  { name: "birds at the feeder", own: [
    "The robin owns the table and has let the others know.",
    "Eleven goldfinches is a charm; twelve is a queue.",
    "The nuthatch eats upside down, presumably out of principle."] },
  { name: "old dictionaries", own: [
    "The 1894 edition has nine words for mud and I have needed seven of them.",
    "Somebody has underlined ‘regret’ in pencil and, a page later, ‘rhubarb’.",
    "A definition is a small act of confidence."] },
  { name: "ferry timetables", own: [
    "The half past four waits for the school bus, though no timetable says so.",
    "In fog they sound the horn once a minute and the whole island counts along.",
    "There is a winter timetable, a summer timetable, and what Captain Holm decides."] },
  { name: "darning socks", own: [
    "You are weaving a very small cloth in the shape of an absence.",
    "The mend outlasts the sock around it, so in time you own one made entirely of mends.",
    "A wooden mushroom is the only tool, and a light bulb will do."] },
  { name: "field recordings", own: [
    "I went to record the stream and came home with forty minutes of a man asking if it was recording.",
    "Snow is not silent; it just has no top end.",
    "Headphones make you notice that your own coat is the loudest thing for miles."] },
  { name: "a shared kitchen", own: [
    "There are nine people, four hobs and one good knife, and so there is a constitution.",
    "Everyone thinks they wash up more than they do; we measured.",
    "Thursday is soup. Nobody remembers deciding that."] },
  { name: "walking to work", own: [
    "It takes thirty-eight minutes, or forty-five if the heron is in.",
    "I know nobody’s name on the canal path and would miss all of them.",
    "The shortest way goes past the bakery, and so the shortest way is not the quickest."] },
];

export const TITLES = [
  "Notes on {name}", "A year of {name}", "In praise of {name}", "What {name} taught me", "The trouble with {name}",
  "Getting {name} wrong", "{Name}, slowly", "Ten rules for {name}, eight of them bad", "A beginner’s case for {name}",
  "Everything I believed about {name}",
];

/** Openings, middles and endings that fit any subject. */
export const OPENINGS = [
  "I did not mean to spend the year on {name}. It began with a wet Sunday and a promise I had made to somebody else.",
  "Every few months someone asks me how to start with {name}, and every time I give a different answer. Here is the one I would give today.",
  "My grandmother had one piece of advice about {name}, and I ignored it for twenty years.",
  "There are two kinds of people who care about {name}: those who tell you about it, and those you have to ask.",
  "This is a short account of {name}, written mostly so that I stop explaining it at dinner.",
  "Last week I threw away a notebook full of plans. What was left, it turned out, was {name}.",
  "If you had told me in January that I would be writing about {name}, I would have asked what happened to the other thing.",
  "A friend sent me an article about {name} that was wrong in an interesting way. I have been thinking about it since.",
];

export const MIDDLES = [
  "The first thing to know is that it cannot be hurried. I tried. I have the receipts, and one small scar.",
  "What nobody mentions is the waiting. You do a thing, you wait, and most of what matters happens while you are looking elsewhere.",
  "I keep a log, one line a day. Read in a row, the lines say very little; read a month apart, they say almost everything.",
  "There is a right tool, of course. There is also the tool you have, and over the years I have come to respect the second one more.",
  "I asked three people who know far more than I do. They agreed on nothing except that I was holding it wrong.",
  "The mistake I made most often was to fix what was not broken. It is remarkable how much improves if you sit on your hands.",
  "Some weeks it is only a habit. Then, on an ordinary Tuesday, it goes right, and you would not swap with anyone.",
  "It is cheaper than you think and takes longer than they say, which I suspect is true of most things worth a Sunday.",
  "You will be told there are rules. There are about four, and the rest are preferences wearing a uniform.",
  "Children understand it at once. They have not yet learned to be embarrassed by doing something badly for a while.",
  "I used to think the point was the result. Now I think the result is what you show people so they let you carry on.",
  "By March I had stopped counting, and that, looking back, is when it started to work.",
];

export const ENDINGS = [
  "That is all I know. Ask me again next year; I hope to know less, and better.",
  "If you try it, write and tell me what went wrong. The things that go right are all the same.",
  "Tomorrow it will be somebody else’s turn. Tonight it is quiet, and I am going back to look once more.",
  "I have not solved anything. But the evenings are longer than they were, and I know what to do with them.",
  "Start small, start badly, and start before you feel ready. The rest is weather.",
  "I will leave it there. The kettle is on, and the light is going.",
];

export const COMMENTS = [
  "This is exactly it. I have been trying to explain this to my brother for years.",
  "The part about waiting made me laugh out loud on the bus.",
  "I tried it the other way round and can report: do not.",
  "Thank you for writing this down. Printed it and put it on the fridge.",
  "Respectfully, I disagree about the rules. There are five.",
  "My father used to say the same thing, in fewer words and with more pointing.",
  "How long did it take before it stopped feeling silly?",
  "We do this on Thursdays if anyone nearby wants to join. Bring a coat.",
  "Started last week because of this post. It is going terribly and I am delighted.",
  "You left out the smell. It is half of it!",
  "I read this twice, once quickly and once properly. The second time is better.",
  "Is there a follow-up? There should be a follow-up.",
  "The third paragraph is doing a lot of work and I would like to shake its hand.",
  "I have the same scar.",
  "Lovely. Sending this to three people who will pretend they knew already.",
  "What did the other two people say?",
  "Counterpoint: it can be hurried, if you do not mind it being bad.",
  "That last line. Yes.",
  "I lived next to someone who did this every morning at six. I miss it now.",
  "Could you say more about the tool you have? Asking for a friend with a drawer.",
  "Best thing I have read all week, and I read the whole ferry timetable.",
  "We tried it with the children on Sunday. Nobody cried. Recommended.",
  "I keep a log too. Mine only says ‘rain’.",
  "Came for the title, stayed for the kettle.",
];
