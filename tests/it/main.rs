//! Whole servers on free ports, spoken to over real sockets.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod accounts_command;
#[cfg(test)]
mod activity;
#[cfg(test)]
mod admin;
#[cfg(test)]
mod admin_key;
#[cfg(test)]
mod admin_live;
#[cfg(test)]
mod admin_series;
#[cfg(test)]
mod admin_verdict;
#[cfg(test)]
mod alerts;
#[cfg(test)]
mod amazon;
#[cfg(test)]
mod analyses;
#[cfg(test)]
mod billing;
#[cfg(test)]
mod breaker_history;
#[cfg(test)]
mod browsers;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod calibration;
#[cfg(test)]
mod capabilities;
#[cfg(test)]
mod cascade;
#[cfg(test)]
mod catalog;
#[cfg(test)]
mod catalog_command;
#[cfg(test)]
mod cloud_providers;
#[cfg(test)]
mod completions;
#[cfg(test)]
mod config_commands;
#[cfg(test)]
mod config_schema;
#[cfg(test)]
mod config_show;
#[cfg(test)]
mod config_values;
#[cfg(test)]
mod connect_command;
#[cfg(test)]
mod console_empty;
#[cfg(test)]
mod console_forms;
#[cfg(test)]
mod console_login;
#[cfg(test)]
mod console_pages;
#[cfg(test)]
mod console_playground;
#[cfg(test)]
mod console_settings;
#[cfg(test)]
mod console_statements;
#[cfg(test)]
mod contract_access;
#[cfg(test)]
mod contract_catalog;
#[cfg(test)]
mod contract_chat;
#[cfg(test)]
mod contract_context;
#[cfg(test)]
mod contract_errors;
#[cfg(test)]
mod contract_health;
#[cfg(test)]
mod contract_images;
#[cfg(test)]
mod contract_keys;
#[cfg(test)]
mod contract_limits;
#[cfg(test)]
mod contract_paths;
#[cfg(test)]
mod contract_records;
#[cfg(test)]
mod contract_requests;
#[cfg(test)]
mod contract_route;
#[cfg(test)]
mod contract_routing;
#[cfg(test)]
mod contract_secrets;
#[cfg(test)]
mod contract_stream;
#[cfg(test)]
mod contract_stream_pace;
#[cfg(test)]
mod cost_ceilings;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
mod diagnosis;
#[cfg(test)]
mod dialect_anthropic;
#[cfg(test)]
mod dialect_converse;
#[cfg(test)]
mod dialect_gemini;
#[cfg(test)]
mod dialect_pairs;
#[cfg(test)]
mod diff_admin;
#[cfg(test)]
mod diff_answers;
#[cfg(test)]
mod diff_command;
#[cfg(test)]
#[cfg(test)]
mod docs;
#[cfg(test)]
mod doctor_command;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod door_completions;
#[cfg(test)]
mod door_history;
#[cfg(test)]
mod door_messages;
#[cfg(test)]
mod door_mistakes;
#[cfg(test)]
mod door_responses;
#[cfg(test)]
mod door_settings;
#[cfg(test)]
mod embeddings;
#[cfg(test)]
mod embeddings_at_clouds;
#[cfg(test)]
mod enemy;
#[cfg(test)]
mod enemy_bodies;
#[cfg(test)]
mod enemy_framing;
#[cfg(test)]
mod enemy_heads;
#[cfg(test)]
mod enemy_keys;
#[cfg(test)]
mod enemy_leaving;
#[cfg(test)]
mod enemy_paths;
#[cfg(test)]
mod enemy_readers;
#[cfg(test)]
mod enemy_slow;
#[cfg(test)]
mod estimate_command;
#[cfg(test)]
mod explain_command;
#[cfg(test)]
mod explore;
#[cfg(test)]
mod feedback;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod gateway_commands;
#[cfg(test)]
mod generation_lists;
#[cfg(test)]
mod golden_errors;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod health_command;
#[cfg(test)]
mod hedging;
#[cfg(test)]
mod host_names;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod hostile_answers;
#[cfg(test)]
mod hostile_connections;
#[cfg(test)]
mod hostile_endless;
#[cfg(test)]
mod hostile_statuses;
#[cfg(test)]
mod hostile_streams;
#[cfg(test)]
mod image_links;
#[cfg(test)]
mod images_at_clouds;
#[cfg(test)]
mod init_command;
#[cfg(test)]
mod init_litellm;
#[cfg(test)]
mod introspection;
#[cfg(test)]
mod issued_keys;
#[cfg(test)]
mod keyless;
#[cfg(test)]
mod keys_command;
#[cfg(test)]
mod keys_durable;
#[cfg(test)]
mod last_resort;
#[cfg(test)]
mod latency_targets;
#[cfg(test)]
mod ledger_commands;
#[cfg(test)]
mod ledger_counters;
#[cfg(test)]
mod ledger_durable;
#[cfg(test)]
mod ledger_sync;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod lifecycle_drain;
#[cfg(test)]
mod lifecycle_reload;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod misspelt;
#[cfg(test)]
mod model_names;
#[cfg(test)]
mod mounted;
#[cfg(test)]
mod newcomer;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod openapi_requests;
#[cfg(test)]
mod openapi_values;
#[cfg(test)]
mod order_of_parts;
#[cfg(test)]
mod own_limits;
#[cfg(test)]
mod packages;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod preview_doors;
#[cfg(test)]
mod price_tiers;
#[cfg(test)]
mod process;
#[cfg(test)]
mod promote;
#[cfg(test)]
mod provider_preferences;
#[cfg(test)]
mod quality;
#[cfg(test)]
mod query_parameters;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod raw_client;
#[cfg(test)]
mod refusal_waits;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod refused_calls;
#[cfg(test)]
mod regret_admin;
#[cfg(test)]
mod regret_command;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod reload_file;
#[cfg(test)]
mod reload_guard;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod replay_worlds;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod replicas_chaos;
#[cfg(test)]
mod replicas_health;
#[cfg(test)]
mod replicas_lists;
#[cfg(test)]
mod replicas_losses;
#[cfg(test)]
mod replicas_postgres;
#[cfg(test)]
mod replicas_records;
#[cfg(test)]
mod replicas_redis;
#[cfg(test)]
mod replicas_tls;
#[cfg(test)]
mod replicas_versions;
#[cfg(test)]
mod retry_budget;
#[cfg(test)]
mod routing_memory;
#[cfg(test)]
mod running_calls;
#[cfg(test)]
mod said_errors;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod scrape;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod served_generation;
#[cfg(test)]
mod served_model;
#[cfg(test)]
mod server_tls;
#[cfg(test)]
mod server_tls_clients;
#[cfg(test)]
mod service_manager;
#[cfg(test)]
mod service_tiers;
#[cfg(test)]
mod shadows;
#[cfg(test)]
mod shortage;
#[cfg(test)]
mod simulated_dialects;
#[cfg(test)]
mod smoke;
#[cfg(test)]
mod spend;
#[cfg(test)]
mod spend_pace;
#[cfg(test)]
mod splits;
#[cfg(test)]
mod stickiness;
#[cfg(test)]
mod stores;
#[cfg(test)]
mod task_class;
#[cfg(test)]
mod token_counts;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod unknown_price;
#[cfg(test)]
mod unserved;
#[cfg(test)]
mod upstream_answers;
#[cfg(test)]
mod upstream_calls;
#[cfg(test)]
mod upstream_clocks;
#[cfg(test)]
mod upstream_connections;
#[cfg(test)]
mod upstream_refusals;
#[cfg(test)]
mod upstream_requests;
#[cfg(test)]
mod upstream_tls;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod watchdog;
#[cfg(test)]
mod waterfall;
#[cfg(test)]
mod whole_for_stream;
#[cfg(test)]
mod why;
#[cfg(test)]
mod working_providers;
#[cfg(test)]
mod world;
