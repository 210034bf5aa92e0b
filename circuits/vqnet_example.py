"""A program for VQNet's distributed machine, with nothing but its import and device lines changed.

    mpirun -n 2 python circuits/vqnet_example.py

Ten qubits split over two ranks, and the gradient of an expectation value by the adjoint method. On the CPU; for a GPU a
rank, the two `.to(pyvqnet.DEV_CPU)` become `.toGPU(pyvqnet.DEV_GPU_0 + get_rank())`.
"""

import qdist.interop.vqnet as pyvqnet
from qdist.interop.vqnet import tensor
from qdist.interop.vqnet.distributed import get_rank
from qdist.interop.vqnet.distributed.qubits_reorder import DistQuantumLayerAdjoint, DistributeQMachine
from qdist.interop.vqnet.qnn.vqc import MeasureAll, cnot, rx, ry, rz

pyvqnet.utils.set_random_seed(123)

WIRES = 10


class QModel(pyvqnet.nn.Module):
    """The expectation value of X on wire 5 after rotations of every wire."""

    def __init__(self, num_wires, dtype, grad_mode=""):
        super().__init__()
        self.qm = DistributeQMachine(num_wires, dtype=dtype, grad_mode=grad_mode)
        self.qm.set_just_defined(True)
        self.qm.set_save_op_history_flag(True)
        self.qm.set_qr_config({"qubit": num_wires, "global_qubit": 1})  # 2**global_qubit ranks
        self.params = pyvqnet.nn.Parameter([num_wires])
        self.measure = MeasureAll(obs={"X5": 1.0})

    def forward(self, x, *args, **kwargs):
        self.qm.reset_states(x.shape[0])
        for i in range(WIRES):
            rx(q_machine=self.qm, params=self.params[i], wires=i)
            ry(q_machine=self.qm, params=self.params[3], wires=i)
            rz(q_machine=self.qm, params=self.params[4], wires=i)
        cnot(q_machine=self.qm, wires=[0, 1])
        return self.measure(q_machine=self.qm)


input_x = tensor.QTensor([[0.1, 0.2, 0.3]], requires_grad=True).to(pyvqnet.DEV_CPU)
input_x = tensor.broadcast_to(input_x, [2, 3])
input_x.requires_grad = True

quantum_model = QModel(num_wires=WIRES, dtype=pyvqnet.kcomplex64, grad_mode="adjoint").to(pyvqnet.DEV_CPU)
adjoint_model = DistQuantumLayerAdjoint(quantum_model)
adjoint_model.train()

batch_y = adjoint_model(input_x)
batch_y.backward()

if get_rank() == 0:
    print(batch_y)
    print(quantum_model.params.grad)
