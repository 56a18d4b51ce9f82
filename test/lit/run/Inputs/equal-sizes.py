"""Writes two zero vectors "0" and "1" of the given sizes as safetensors."""
import json
import struct
import sys

path, n, m = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
header = json.dumps({
    "0": {"dtype": "F32", "shape": [n], "data_offsets": [0, 4 * n]},
    "1": {"dtype": "F32", "shape": [m],
          "data_offsets": [4 * n, 4 * (n + m)]},
}).encode()
with open(path, "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header + bytes(4 * (n + m)))
