"""OpenQASM 2."""

from __future__ import annotations

from openqasm import OpenQasm


class Fuzzed(OpenQasm):
    name = "openqasm2"
    header = 'OPENQASM 2.0;include "qelib1.inc";qreg q[3];creg c[3];qreg b[1200];creg m[1200];\n'
    programs = (
        """OPENQASM 2.0; include "qelib1.inc";
        qreg q[3]; qreg r[2]; creg c[3]; // registers
        gate maj(t) a,b,c { cx c,b; rz(t/2) a; ccx a,b,c; barrier a,b; }
        opaque magic(a,b) x,y;
        h q; maj(0.25) q[0],q[1],q[2]; cx q[0],r; measure q -> c; if (c == 3) x q[2];""",
        """include "qelib1.inc"; qreg q[2]; creg c[2];
        u3(-pi/2,0.5e-3,sin(pi)^2) q[1]; if (c==1) measure q[0] -> c[0];""",
        """OPENQASM 2.0; qreg a[20]; qreg b[20]; creg m[20];
        CX a,b; reset a; measure b->m; barrier a,b[1]; U(1,2,3) a;""",
        """OPENQASM 2.0; include "qelib1.inc"; qreg q[1];
        gate f a {h a; h a;} gate g a {f a; f a;} gate h2 a {g a; g a;} h2 q; swap q,q;""",
    )
    statements = """
        GATE(NUM) BIT; | GATE BIT; | GATE BIT,BIT; | GATE(NUM,NUM) BIT,BIT; | GATE(NUM,NUM,NUM) BIT;
        measure BIT -> BIT; | reset BIT; | barrier BIT,BIT; | if (NAME == NUM) GATE BIT; | if(NAME==NUM) reset BIT;
        qreg NAME[NUM]; | creg NAME[NUM]; | gate NAME(NAME) a,b { GATE(NAME) a; cx a,b; } | gate NAME a { GATE a; }
        opaque NAME a,b; | include "qelib1.inc"; | if (c==1) if (c==1) x q[0]; | gate NAME a { gate NAME b { x b; } }
    """
    openers = "if (c==1)  | gate f a {  | rx( | rx(- | rx(2^ | /* | rx(sin( | x q[0]; | gate g a { h a; }"
    words = """
        GATE h x cx ccx rx u3 U CX swap c4x rzz f g foo u0 cu3
        NUM 0 1 2 3 7 0.5 1e3 -1 pi pi/2 sin(pi)^2 ln(2) 2^3^2 1/0 -2^0.5
        BIT q b m q[0] q[1] q[2] q[3] c c[0] c[1] r f[1] q[99999999] a
        NAME q c r f g a h pi t swap barrier
    """
