# Takes the examples of README.md apart: commands.sh has the lines of its shell
# blocks that call a tool, example-N.c its C blocks.
import re
import sys

text = open(sys.argv[1]).read()
blocks = re.findall(r"^```(sh|c)\n(.*?)^```$", text, re.S | re.M)
programs = [body for kind, body in blocks if kind == "c"]
lines = [
    line for kind, body in blocks if kind == "sh" for line in body.splitlines()]
assert len(programs) >= 3 and len(lines) >= 10, "README.md lacks its examples"
assert all(re.match("thunder-|sed ", line) for line in lines)
with open(sys.argv[2] + "/commands.sh", "w") as out:
    out.write("set -ex\n" + "\n".join(lines) + "\n")
for number, program in enumerate(programs):
    with open(f"{sys.argv[2]}/example-{number}.c", "w") as out:
        out.write(program)
