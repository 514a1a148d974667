// Runs the client queue, as it stands in its sources, under a weak memory model.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "memory_litmus.hpp"
#include "ring_scene.hpp"

int relay_mutant = 0;

constexpr uint64_t kRound = 100;  // executions of a scenario before the next has its turn

static void explore(const std::vector<ring_memory::Scenario>& scenarios, uint64_t seed, uint64_t times) {
  for (uint64_t done = 0; done < times; done += kRound) {
    for (const auto& scenario : scenarios) {
      model::subject = scenario.name;
      if (!scenario.switches) {
        model::explore_some(seed + done, kRound, scenario.execute);
      } else if (!done) {
        model::explore_all(scenario.switches, scenario.switches, scenario.execute);
      }
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s seed executions mutant [scenario]\n", argv[0]);
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const uint64_t times = std::strtoull(argv[2], nullptr, 10);  // each scenario
  relay_mutant = std::atoi(argv[3]);
  const size_t litmus = relay_mutant ? 0 : model::check_litmus();
  std::vector<ring_memory::Scenario> scenarios = ring_memory::queue_scenarios();
  for (const auto& each : ring_memory::turn_scenarios()) scenarios.push_back(each);
  if (argc > 4) {
    auto is_other = [&](const ring_memory::Scenario& each) { return std::strcmp(each.name, argv[4]) != 0; };
    scenarios.erase(std::remove_if(scenarios.begin(), scenarios.end(), is_other), scenarios.end());
  }
  try {
    explore(scenarios, seed, times);
  } catch (const std::exception& e) {  // of what a scenario does alone
    model::fail(e.what());
  }
  std::printf("ring_memory: %zu litmus tests, %zu scenarios, %llu executions, all right\n", litmus, scenarios.size(),
              static_cast<unsigned long long>(model::executions()));
}
