# Records more for each case than its program has: more-outputs.py FROM TO
import json
import struct
import sys

with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
cases = json.loads(header["__metadata__"]["cases"])
for name, case in cases.items():
    case.setdefault("scalars", {})["7"] = 1
    case.setdefault("out_scalars", {})["8"] = 1
    place = [len(data), len(data) + 4]
    header[name + ".out.9"] = {"dtype": "F32", "shape": [1],
                               "data_offsets": place}
    data += bytes(4)
header["__metadata__"]["cases"] = json.dumps(cases)
text = json.dumps(header).encode()
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
