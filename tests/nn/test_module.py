"""Module: names, state, modes, text."""

import copy
import pickle

import numpy as np
import pytest

from qdist import nn, tensor


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


def model():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)))


def test_parameters_have_dotted_names_in_order():
    assert [name for name, _ in model().named_parameters()] == [
        "0.weight",
        "0.bias",
        "2.0.weight",
        "2.0.bias",
    ]


def test_a_shared_parameter_is_listed_once_but_saved_under_both_names():
    tied = Tied()
    assert [name for name, _ in tied.named_parameters()] == ["embed.weight"]
    assert set(tied.state_dict()) == {"embed.weight", "head.weight"}


def test_module_list_finds_parameters():
    layers = nn.ModuleList([nn.Linear(2, 2)])
    layers.append(nn.Linear(2, 3))
    assert len(list(layers.parameters())) == 4
    assert len(layers) == 2
    assert layers[1].out_features == 3


def test_replacing_and_deleting_attributes_updates_the_tables():
    m = nn.Linear(2, 3)
    m.bias = None
    assert [name for name, _ in m.named_parameters()] == ["weight"]
    del m.weight
    assert list(m.parameters()) == []


def test_a_module_that_replaces_another_takes_its_place():
    m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    setattr(m, "0", nn.Linear(5, 3))
    assert m(tensor.Tensor(np.ones((1, 5), np.float32))).shape == (1, 4)
    m[1].weight = nn.Parameter(np.ones((4, 3), np.float32))
    assert [name for name, _ in m.named_parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_assigning_before_init_is_explained():
    class Bad(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(RuntimeError, match="super"):
        Bad()


def test_train_and_eval_reach_every_module():
    m = model().eval()
    assert not any(module.training for module in m.modules())
    assert all(module.training for module in m.train().modules())


def test_state_dict_round_trip_copies_in_place():
    a, b = model(), model()
    weights = [p.data for p in b.parameters()]
    b.load_state_dict(a.state_dict())
    for (_, p), (_, q), memory in zip(a.named_parameters(), b.named_parameters(), weights):
        np.testing.assert_array_equal(p.numpy(), q.numpy())
        assert q.data is memory


def test_mismatches_are_all_listed_and_nothing_is_changed():
    m = model()
    before = m[0].bias.numpy().copy()
    state = {k: v.numpy() + 1 for k, v in m.state_dict().items()}
    del state["2.0.bias"]
    state["0.weight"] = np.ones((3, 5), np.float32)
    state["extra"] = np.ones(1)
    with pytest.raises(ValueError) as error:
        m.load_state_dict(state)
    text = str(error.value)
    assert "missing: 2.0.bias (2,)" in text
    assert "unknown: extra" in text
    assert "shape of 0.weight: (3, 5) given, (3, 4) needed" in text
    np.testing.assert_array_equal(m[0].bias.numpy(), before)


@pytest.mark.parametrize("strict", [False, True])
def test_complex_values_are_refused_for_real_ones(strict):
    m = model()
    before = m[0].weight.numpy().copy()
    state = {k: v.numpy() + 1 for k, v in m.state_dict().items()}
    state["0.bias"] = state["0.bias"] + 2j
    with pytest.raises(ValueError, match=r"dtype of 0.bias: complex64 given, real numbers needed"):
        m.load_state_dict(state, strict)
    np.testing.assert_array_equal(m[0].weight.numpy(), before)


def test_not_strict_loads_what_fits_by_name():
    m = model()
    m.load_state_dict({"0.bias": np.full(3, 7.0)}, strict=False)
    assert m[0].bias.tolist() == [7.0] * 3
    assert m[0].bias.dtype == np.float32


def test_to_converts_floating_tensors_only():
    m = nn.BatchNorm2d(2)
    m.register_buffer("count", np.array([3]))
    m.to(np.float64)
    assert m.weight.dtype == m.running_mean.dtype == np.float64
    assert m.count.dtype == np.int64
    assert m.to("cpu") is m
    for target in (np.int32, np.complex64, bool):
        with pytest.raises(TypeError, match="would change nothing"):
            m.to(target)


def test_apply_zero_grad_and_freeze():
    m = model()
    seen = []
    m.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Sequential", "Linear", "ReLU", "Sequential", "Linear", "Dropout"]
    m(tensor.randn(2, 4)).sum().backward()
    assert all(p.grad is not None for p in m.parameters())
    m.zero_grad()
    assert all(p.grad is None for p in m.parameters())
    m.requires_grad_(False)
    assert not m(tensor.randn(2, 4)).requires_grad


def test_repr_shows_the_tree():
    assert repr(model()) == (
        "Sequential(\n  (0): Linear(4, 3)\n  (1): ReLU()\n  (2): Sequential(\n    (0): Linear(3, 2)\n"
        "    (1): Dropout(p=0.5)\n  )\n)"
    )


def test_slices_of_a_sequential_share_its_modules():
    m = model()
    assert m[:2][0] is m[0]
    assert len(m) == 3


def test_forward_must_be_written():
    with pytest.raises(NotImplementedError, match=r"forward\(\)"):
        nn.Module()(1)


def test_equal_seeds_give_equal_models():
    tensor.manual_seed(3)
    a = model()
    tensor.manual_seed(3)
    b = model()
    assert all(np.array_equal(p.numpy(), q.numpy()) for p, q in zip(a.parameters(), b.parameters()))


def test_a_deep_copy_is_independent():
    a = model()
    b = copy.deepcopy(a)
    b[0].bias.data += 1
    assert not np.array_equal(a[0].bias.numpy(), b[0].bias.numpy())
    assert [name for name, _ in b.named_parameters()] == [name for name, _ in a.named_parameters()]
    assert b[0].bias is b[0]._parameters["bias"]


def test_a_model_is_pickled_while_a_graph_holds_its_parameters():
    a, x = nn.Linear(4, 3), tensor.Tensor(np.ones((2, 4), np.float32))
    out = a(x)
    b = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(b(x).numpy(), out.numpy())
    # The graph is that of the first one, whose change it still sees.
    b.weight.data += 1
    out.sum().backward()
    assert a.weight.grad is not None
    assert b.weight.grad is None


@pytest.mark.parametrize(
    ("make", "way"),
    [
        (lambda: nn.Sequential([nn.Identity()]), r"not builtins\.list: unpack it, Sequential\(\*modules\)"),
        (lambda: nn.Sequential(nn.Identity(), nn.ReLU), r"not the class ReLU: make one, ReLU"),
        (lambda: nn.Sequential(nn.Identity(), lambda x: x), r"not builtins\.function: give a function a Module"),
        (lambda: nn.Sequential(None), "not builtins.NoneType$"),
        (lambda: nn.ModuleList([nn.Identity(), abs]), "ModuleList takes modules"),
        (lambda: nn.ModuleList([nn.Identity]), "make one, Identity"),
        (lambda: nn.ModuleDict({"a": 3}), r"ModuleDict takes modules of qdist\.nn, not builtins\.int"),
    ],
)
def test_containers_leave_nothing_out(make, way):
    with pytest.raises(TypeError, match=way):
        make()


def test_modules_of_other_libraries_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"not torch\.nn\.modules\.activation\.ReLU$"):
        nn.Sequential(nn.Identity(), torch.nn.ReLU())


def test_a_path_is_no_state():
    with pytest.raises(TypeError, match=r"not str: qdist\.checkpoint\.load\(path\)"):
        nn.Linear(2, 2).load_state_dict("model.qdist")


def test_what_is_appended_to_a_list_takes_no_other_modules_place():
    modules = nn.ModuleList([nn.Linear(n, n) for n in (1, 2, 3)])
    delattr(modules, "1")
    modules.append(nn.Linear(4, 4))
    assert [module.in_features for module in modules] == [1, 3, 4]
    setattr(modules, "0", None)
    modules.append(nn.Linear(5, 5))
    assert [module.in_features for module in modules] == [3, 4, 5]
    assert nn.ModuleList().append(nn.Identity()) is None


def test_lists_are_loaded_in_the_precision_of_the_parameter():
    values = {"weight": [[0.1, 1 / 3]], "bias": [1e-9]}
    layer = nn.Linear(2, 1, dtype=np.float64)
    layer.load_state_dict(values)
    assert layer.weight.tolist() == values["weight"]
    assert layer.bias.tolist() == values["bias"]
    with pytest.raises(ValueError, match="real numbers needed"):
        layer.load_state_dict({**values, "bias": [1j]})
