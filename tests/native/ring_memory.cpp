// Runs the client queue, as it stands in its sources, under a weak memory model.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "memory_litmus.hpp"
#include "ring_scene.hpp"

int relay_mutant = 0;

constexpr uint64_t kRound = 100;  // executions of a scenario before the next has its turn

static void explore_at_random(const std::vector<ring_memory::Scenario>& scenarios, uint64_t seed, uint64_t times) {
  for (uint64_t done = 0; done < times; done += kRound) {
    for (const auto& scenario : scenarios) {
      if (scenario.is_exhaustive()) continue;
      model::subject = scenario.name;
      model::explore_some(seed + done, kRound, scenario.execute);
    }
  }
}

static void explore_all(const std::vector<ring_memory::Scenario>& scenarios, bool long_ones) {
  for (const auto& scenario : scenarios) {
    if (!scenario.is_exhaustive() || scenario.is_long != long_ones) continue;
    model::subject = scenario.name;
    const uint64_t ways = model::explore_all(scenario.every, scenario.execute);
    std::printf("%-50s %9llu ways: %zu switches, %zu old loads, %zu deaths\n", scenario.name,
                static_cast<unsigned long long>(ways), scenario.every.switches, scenario.every.old_loads,
                scenario.every.deaths);
  }
}

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s seed executions mutant short|whole [scenario]\n", argv[0]);
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const uint64_t times = std::strtoull(argv[2], nullptr, 10);  // each scenario
  relay_mutant = std::atoi(argv[3]);
  const bool is_whole = std::strcmp(argv[4], "whole") == 0;
  const size_t litmus = relay_mutant ? 0 : model::check_litmus();
  std::vector<ring_memory::Scenario> scenarios = ring_memory::queue_scenarios();
  for (const auto& each : ring_memory::turn_scenarios()) scenarios.push_back(each);
  for (const auto& each : ring_memory::death_scenarios()) scenarios.push_back(each);
  if (argc > 5) {
    auto is_other = [&](const ring_memory::Scenario& each) { return std::strcmp(each.name, argv[5]) != 0; };
    scenarios.erase(std::remove_if(scenarios.begin(), scenarios.end(), is_other), scenarios.end());
  }
  try {
    // Most mutants show in the first random executions, the rest in every way of a small queue or in many executions.
    const uint64_t first = std::min(times, kRound);
    explore_at_random(scenarios, seed, first);
    explore_all(scenarios, false);
    explore_at_random(scenarios, seed + first, times - first);
    if (is_whole) explore_all(scenarios, true);
  } catch (const std::exception& e) {  // of what a scenario does alone
    model::fail(e.what());
  }
  std::printf("ring_memory: %zu litmus tests, %zu scenarios, %llu executions, all right\n", litmus, scenarios.size(),
              static_cast<unsigned long long>(model::executions()));
}
