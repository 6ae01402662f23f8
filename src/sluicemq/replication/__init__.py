"""How a queue's commands come to be agreed on."""
