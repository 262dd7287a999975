"""What the metamorphic tests ask about: seeded random items, the containers that hold them, the queries."""
import json
import os
import random

SEED = 20261116
COUNT = 60
DATABASE = "metamorphic"
LONG = "a long text that goes on and on so that an index keeps its beginning only, then "
WORDS = ["oak", "birch", "maple", "Maple", "alder", "pine", "éclair", "😀", "10% off", "", "apple", "mangle"]
TAGS = ["red", "green", "blue", "red green"]

ORDER_PATHS = ["/seq/?", "/n/?", "/s/?", "/mixed/?", "/deep/x/?", "/when/?", "/price/?", "/id/?", "/big/?"]
COMPOSITES = [
    [("/n", "ascending"), ("/seq", "ascending")],
    [("/s", "ascending"), ("/n", "descending")],
    [("/flag", "ascending"), ("/price", "descending"), ("/seq", "ascending")],
    [("/mixed", "ascending"), ("/seq", "ascending")],
]
COMPOSITE_INDEXES = [[{"path": path, "order": order} for path, order in index] for index in COMPOSITES]
POLICIES = {
    # Everything is indexed.
    "full": {
        "includedPaths": [{"path": "/*"}] + [{"path": path} for path in ORDER_PATHS],
        "compositeIndexes": COMPOSITE_INDEXES,
        "spatialIndexes": [
            {"path": "/loc/?", "types": ["Point"]},
            {"path": "/area/?", "types": ["Point", "LineString", "Polygon"]},
        ],
    },
    # Only what ORDER BY cannot do without.
    "lean": {
        "includedPaths": [{"path": path} for path in ORDER_PATHS],
        "excludedPaths": [{"path": "/*"}],
        "compositeIndexes": COMPOSITE_INDEXES,
    },
    "none": {"indexingMode": "none", "automatic": False},
}
KINDS = {"plain": ["/pk"], "tree": ["/tenant", "/user", "/session"]}
RANGES = {1: 400, 42: 420_000}
PAGES = (1000, 7, 1)


def container_name(kind, policy, ranges):
    return "%s-%s-%d" % (kind, policy, ranges)


def mixed(choose):
    return choose.choice(
        [None, True, False, 1, 2, 3.5, -4, "m", "zebra", "a", [1, 2], [1], [], {"k": 1}, {"k": 2}, {}]
    )


def part(choose):
    one = {"k": choose.choice("abc"), "v": choose.randrange(7)}
    if choose.random() < 0.6:
        one["sub"] = [choose.randrange(4) for _ in range(choose.randrange(3))]
    return one


def shape(choose):
    west, south = choose.randrange(0, 12), choose.randrange(40, 52)
    kind = choose.choice(["Point", "LineString", "Polygon"])
    corners = [[west, south], [west + 2, south], [west + 2, south + 2], [west, south + 2], [west, south]]
    coordinates = {"Point": corners[0], "LineString": corners[:3], "Polygon": [corners]}[kind]
    return {"type": kind, "coordinates": coordinates}


def item(choose, number):
    """Sums of prices are exact in any order: they are whole numbers of quarters."""
    made = {
        "id": "d%03d" % number,
        "seq": number + 1,
        "price": choose.randrange(0, 24) / 4,
        "tenant": "t%d" % choose.randrange(3),
        "user": "u%d" % choose.randrange(3),
        "session": choose.choice(["s1", "s2", 3]),
        "when": "2024-%02d-%02dT10:00:00.0000000Z" % (choose.randrange(1, 9), choose.randrange(1, 28)),
    }
    sometimes = {
        "pk": lambda: choose.choice(["p%d" % choose.randrange(9)] * 10 + [None, 7, True]),
        "n": lambda: choose.choice([choose.randrange(-3, 10)] * 8 + [None, "3"]),
        "s": lambda: choose.choice([choose.choice(WORDS)] * 9 + [5]),
        "long": lambda: LONG + str(choose.randrange(6)),
        "flag": lambda: choose.random() < 0.5,
        "mixed": lambda: mixed(choose),
        "deep": lambda: {"x": choose.randrange(4), "y": [choose.randrange(3) for _ in range(2)]},
        "tags": lambda: [choose.choice(TAGS) for _ in range(choose.randrange(4))],
        "parts": lambda: [part(choose) for _ in range(choose.randrange(4))],
        "loc": lambda: {"type": "Point", "coordinates": [choose.randrange(0, 56) / 4, 40 + choose.randrange(0, 48) / 4]},
        "area": lambda: shape(choose),
        "at": lambda: "2024-05-%02dT%02d:30:00%s"
        % (choose.randrange(1, 9), choose.randrange(24), choose.choice(["Z", "", "+00:00", "+02:00", "-08:30", "+0530"])),
        "big": lambda: choose.choice([2**53 + choose.randrange(5)] * 4 + [2**63 - 1, -(2**53) - 1, 4]),
    }
    for name, make in sometimes.items():
        if choose.random() < 0.85:
            made[name] = make()
    if choose.random() < 0.1 and "deep" in made:
        made["deep"] = {"y": []}
    return made


def items():
    choose = random.Random(SEED)
    return [item(choose, number) for number in range(COUNT)]


def queries():
    path = os.path.join(os.path.dirname(__file__), "..", "metamorphic", "queries.json")
    with open(path, encoding="utf-8") as text:
        return json.load(text)


def partition_key(kind, levels):
    """The key that a query with `"key": levels` is asked inside."""
    if kind == "plain":
        return "p%d" % levels
    return ["t1", "u1", "s1"][:levels]


def index_off(query):
    """The policy that leaves the index out: without one, nothing can be ordered."""
    return "lean" if "ORDER BY" in query["sql"] else "none"


def ways(kind, query, turn):
    """How a query is asked: policy, ranges, rows in a page. The first way gives the answer that is kept.

    Forty-two ranges take as many requests, so a run asks them in one of six ways and for one kind of key;
    `turn` says which, and differs from query to query and from run to run. With ARMILLA_WAYS=all a run
    asks in every way.
    """
    off = index_off(query)
    whole = [[(policy, ranges, page) for policy in ("full", off) for page in PAGES] for ranges in RANGES]
    if os.environ.get("ARMILLA_WAYS") == "all":
        return whole[0] if query.get("mixed") else whole[0] + whole[1]
    few, many = whole[0][: len(PAGES)] + [(off, 1, PAGES[turn % 3])], whole[1]
    # The SDKs do not merge orders over values of several types.
    turn = (turn + list(KINDS).index(kind) * len(many)) % (len(KINDS) * len(many))
    return few if query.get("mixed") or turn >= len(many) else few + [many[turn]]
