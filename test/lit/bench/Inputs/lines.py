# lines.py FILE                  checks each line of FILE: keys, kinds, order
# lines.py FILE FACTOR OUTPUT    writes them with ratios FACTOR times as large
import json
import sys

KEYS = [
    "name", "threads", "ours_ms", "ours_low_ms", "ours_high_ms", "reference",
    "reference_ms", "ratio", "low", "high", "pairs", "cpu", "commit"]

with open(sys.argv[1]) as file:
    lines = [json.loads(line) for line in file]
for line in lines:
    assert list(line) == KEYS, line
    assert line["ours_low_ms"] <= line["ours_ms"] <= line["ours_high_ms"], line
    assert line["ours_low_ms"] > 0 and line["cpu"] and line["commit"], line
    if line["reference"]:
        assert line["low"] <= line["ratio"] <= line["high"], line
        assert line["reference_ms"] > 0, line
if len(sys.argv) > 2:
    with open(sys.argv[3], "w") as file:
        for line in lines:
            for key in "ratio", "low", "high":
                line[key] *= float(sys.argv[2])
            print(json.dumps(line), file=file)
print(len(lines), "lines,", *sorted({line["name"] for line in lines}),
      *sorted({str(line["reference"]) for line in lines}))
