"""One process, step by step (2.1.1). Lines that had to change: imports."""

import loops
import setting


def train_model():
    model = setting.SimpleNet(setting.input_size, setting.inner_size, setting.class_dim)
    optimizer = setting.optimizer_setting(parameter_list=model.parameters())
    losses = loops.eager(model, optimizer, loops.whole_batches())
    return losses, setting.weights(model.state_dict())
