"""OpenQASM 3."""

from __future__ import annotations

from openqasm import OpenQasm


class Fuzzed(OpenQasm):
    name = "openqasm3"
    header = """OPENQASM 3; include "stdgates.inc"; input float theta; input array[float,3] w;
        const int n=3; const float half=0.5; qubit[n] q; bit[n] c; bit f; qubit[1200] b; bit[1200] m;
        """
    programs = (
        """OPENQASM 3.0; include "stdgates.inc"; input float[64] theta; input array[float[64], 3] w;
        const int n = 3; qubit[n] q; bit[n] c; gate g(a) x, y { rx(a / 2) x; gphase(a); ctrl @ U(a, 0, 0) x, y; }
        g(2 * theta + 1) q[0], q[1]; for int i in [0:n - 1] { ry(w[i]) q[i]; if (i == 1) h q[i]; } c = measure q;""",
        """OPENQASM 3; include "stdgates.inc"; qubit[3] q; bit[3] c; bit flag;
        ctrl @ negctrl @ pow(2) @ inv @ s q[0], q[1], q[2]; pow(0.5) @ swap q[0], q[2];
        let pair = q[0:1] ++ q[2]; flag = measure pair[1];
        if (c == 5) { x q[0]; } else if (!flag) { barrier; } else { reset q[0:2:2]; }""",
        """OPENQASM 3; include "stdgates.inc"; h $0; cx $0, $1; bit[2] b; b[0] = measure $0;
        if (b[0] && b[1] == 0) gphase(-pi);""",
        """OPENQASM 3.0; include "stdgates.inc"; input float[64] _w_0_; input float[64] _w_1_; qubit[20] q; bit[20] c;
        rx(_w_0_ + 2*_w_1_) q; reset q; c = measure q; if (c[{0,2}] == 2) { x q[0]; }
        for int i in {0, 2} cp(pi / 2**i) q[i], q[1];""",
    )
    statements = """
        GATE(NUM) BIT; | GATE BIT; | GATE BIT, BIT; | MOD @ GATE BIT, BIT; | MOD @ MOD @ GATE(NUM) BIT, BIT, BIT;
        BIT = measure BIT; | measure BIT -> BIT; | reset BIT; | barrier BIT, BIT; | barrier; | gphase(NUM);
        if (BIT OPR NUM) { GATE BIT; } else { reset BIT; } | if (BIT OPR NUM && BIT) GATE BIT; | if (!BIT) GATE BIT;
        for int i in [NUM:NUM] { GATE(NUM) BIT; } | for uint i in {NUM, NUM} GATE BIT; | for int i in [0:NUM:NUM] {}
        qubit[NUM] NAME; | bit[NUM] NAME; | bit NAME = measure BIT; | const int NAME = NUM;
        const float[32] NAME = NUM;
        input float[64] NAME; | input array[float, NUM] NAME; | input angle[NUM] NAME; | let NAME = BIT ++ BIT;
        gate NAME(NAME) x, y { GATE(NAME) x; ctrl @ GATE x, y; } | gate NAME x { GATE x; MOD @ GATE x; }
        gate NAME x { for int i in [0:NUM] { GATE x; } } | rx(NUM OPR NUM) BIT; | rx(-NUM * (NUM OPR NUM)) BIT;
        input float[64] _a_0_; input float[64] _a_1_; | pow(NUM) @ GATE(NUM) BIT; | ctrl(NUM) @ GATE BIT, BIT, BIT;
    """
    openers = (
        "if (c == 1) { | if (f) x q[0]; else  | for int i in [0:1]  | gate g x { | rx( | rx(- | rx(2** | ctrl @  | "
        "pow(2) @  | rx(sin( | rx(w[ | h q[ | if (f &&  | if (!( | input float k; | rx(1+theta+ | [ | { | "
        "if (false) { } else if (f) "
    )
    words = """
        GATE h x cx ccx rx u3 U swap p gphase f g k foo id cu
        NUM 0 1 2 3 -1 0.5 1e3 pi tau/2 n half theta 2*theta+1 w[0] w[1]-w[2] i 2**100 1<<3 1<<99999 10**9 w theta*theta
        NUM 1200 1/0 mod(7,3) c[0] true 1000000 w[i] k
        MOD ctrl negctrl inv pow(2) pow(0.5) pow(-3) ctrl(2) pow(1000000) ctrl(101)
        OPR + - * / ** == != < << && || & % ^
        BIT q b m b[0:700] m[{0,1}] q[0] q[1] q[-1] q[0:1] q[{0,2}] q[3] c c[0] c[0:1] c[{0,1}] f $0 x k
        NAME q c f g k theta w n x pi _b_0_ _b_1_ measure
    """
